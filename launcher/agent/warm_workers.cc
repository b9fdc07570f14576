#include "launcher/agent/warm_workers.h"

#include <algorithm>
#include <asio/error_code.hpp>
#include <string>
#include <utility>

#include "launcher/process/process_identity.h"
#include "supervisor/protocol/codec.h"

namespace elastictrain::launcher {
namespace {

// Between Dismiss and TERM: its program may have something to do at its end.
constexpr std::chrono::milliseconds kTimeToLeave{3'000};

}  // namespace

WarmWorkers::WarmWorkers(asio::io_context& io, WarmLimits limits, std::function<void()> on_change)
    : io_(io), limits_(limits), on_change_(std::move(on_change)) {}

void WarmWorkers::keep(std::unique_ptr<WorkerProcess> process) {
  Kept& kept = kept_.emplace_back(Kept{std::move(process), asio::steady_timer(io_)});
  const WorkerId was = kept.process->id();
  kept.process->park({[](const protocol::WorkerToAgent&) {}, [] {},
                      [this, was](const protocol::WorkerExited&) { ended(was); }, [] { return true; }});
  kept.timer.expires_after(limits_.time);
  kept.timer.async_wait([this, was](const asio::error_code& error) {
    if (!error) end(was);
  });
  on_change_();
  look_at_memory();
}

std::unique_ptr<WorkerProcess> WarmWorkers::take(std::uint32_t slot) {
  const auto found = std::find_if(kept_.begin(), kept_.end(),
                                  [&](const Kept& kept) { return !kept.ending && kept.process->slot() == slot; });
  if (found == kept_.end()) return nullptr;
  auto process = std::move(found->process);
  kept_.erase(found);
  return process;
}

void WarmWorkers::end(WorkerId was) {
  for (Kept& kept : kept_) {
    if (kept.process->id() == was) end(kept, limits_.grace);
  }
}

void WarmWorkers::end_in(std::uint32_t slot) {
  for (Kept& kept : kept_) {
    if (kept.process->slot() == slot) end(kept, limits_.grace);
  }
}

void WarmWorkers::end_all(std::chrono::milliseconds grace) {
  for (Kept& kept : kept_) {
    if (kept.ending) kept.process->stop(grace);
    end(kept, grace);
  }
}

void WarmWorkers::end(Kept& kept, std::chrono::milliseconds grace) {
  if (std::exchange(kept.ending, true)) return;
  const WorkerId was = kept.process->id();
  kept.process->send(std::make_shared<const std::string>(
      protocol::encode_frame(protocol::WorkerDown(protocol::Dismiss{"its time as a warm worker is over"}))));
  const auto patience = std::min(kTimeToLeave, grace / 2);
  kept.timer.expires_after(patience);
  kept.timer.async_wait([this, was, rest = grace - patience](const asio::error_code& error) {
    if (!error) stop(was, rest);
  });
  on_change_();
}

void WarmWorkers::stop(WorkerId was, std::chrono::milliseconds grace) {
  for (Kept& kept : kept_) {
    if (kept.process->id() == was) kept.process->stop(grace);
  }
}

void WarmWorkers::ended(WorkerId was) {
  std::erase_if(kept_, [&](const Kept& kept) { return kept.process->id() == was; });
  on_change_();
}

void WarmWorkers::look_at_memory() {
  std::uint64_t held = 0;
  for (auto kept = kept_.rbegin(); kept != kept_.rend(); ++kept) {
    if (kept->ending) continue;
    held += resident_bytes(kept->process->training_pid());
    if (held > limits_.bytes) end(*kept, limits_.grace);
  }
}

std::vector<protocol::WarmProcess> WarmWorkers::list() const {
  std::vector<protocol::WarmProcess> list;
  for (const Kept& kept : kept_) {
    list.push_back({kept.process->id(), kept.process->slot(), kept.process->pid(), kept.ending});
  }
  return list;
}

}  // namespace elastictrain::launcher
