#include "launcher/agent/worker_record.h"

#include <type_traits>
#include <utility>

#include "supervisor/protocol/check.h"
#include "supervisor/protocol/names.h"

namespace elastictrain::launcher {

using namespace protocol;

namespace {

constexpr std::size_t kMessageOverheadBytes = 128;

// Approximate memory for keeping this message; 0: it has later versions and need not be kept.
std::size_t kept_cost(const WorkerUp& message) {
  if (std::holds_alternative<WorkerSwap>(message)) return kMessageOverheadBytes;
  if (const auto* request = std::get_if<WorkerRequest>(&message)) {
    return kMessageOverheadBytes + request->topology.size() + request->synchronization.size();
  }
  if (const auto* note = std::get_if<WorkerNote>(&message)) {
    return kMessageOverheadBytes + note->key.size() + note->value.size();
  }
  if (const auto* declines = std::get_if<WorkerDeclines>(&message)) {
    return kMessageOverheadBytes + declines->reason.size();
  }
  if (const auto* audit = std::get_if<WorkerAudit>(&message)) {
    return kMessageOverheadBytes + audit->steps.size() * sizeof(AuditStep);
  }
  return 0;
}

bool is_term(const WorkerUp& message) {
  const auto* note = std::get_if<WorkerNote>(&message);
  return note != nullptr && note->key == kTermNote;
}

std::optional<WorkerUp> forwarded_part(WorkerToAgent message) {
  return std::visit(
      [](auto& content) -> std::optional<WorkerUp> {
        if constexpr (std::is_constructible_v<WorkerUp, decltype(content)>) return WorkerUp(std::move(content));
        return std::nullopt;
      },
      message);
}

}  // namespace

WorkerHeartbeat fold(const WorkerHeartbeat& older, const WorkerHeartbeat& newer) {
  WorkerHeartbeat folded = newer;
  folded.steps = older.steps + newer.steps;
  if (older.steps == 0) return folded;
  const double part = static_cast<double>(newer.steps) / folded.steps;
  folded.mean = protocol::blend(older.mean, newer.mean, part);
  folded.samples_per_s = older.samples_per_s + (newer.samples_per_s - older.samples_per_s) * part;
  folded.norm_steps = older.norm_steps + newer.norm_steps;
  if (folded.norm_steps != 0) {
    const double norm_part = static_cast<double>(newer.norm_steps) / folded.norm_steps;
    for (const auto norm : {&WorkerHeartbeat::local_square, &WorkerHeartbeat::global_square,
                            &WorkerHeartbeat::local_inverse_batch, &WorkerHeartbeat::global_inverse_batch}) {
      folded.*norm = older.*norm + (newer.*norm - older.*norm) * norm_part;
    }
  }
  if (newer.steps > 0) return folded;
  // Of the last committed step, which belongs to the older one.
  folded.loss = older.loss;
  folded.epoch_fraction = older.epoch_fraction;
  folded.gradient_norm = older.gradient_norm;
  return folded;
}

std::optional<WorkerUp> WorkerRecord::take(WorkerToAgent message, TimePoint now, std::uint64_t next_report) {
  last_seen_ = now;
  if (const auto* heartbeat = std::get_if<WorkerHeartbeat>(&message)) {
    heartbeat_ = heartbeat_is_new_ ? fold(*heartbeat_, *heartbeat) : *heartbeat;
    heartbeat_is_new_ = true;
    return std::nullopt;
  }
  auto forwarded = forwarded_part(std::move(message));
  if (!forwarded) return std::nullopt;
  ++taken_;
  remember(*forwarded);
  keep(*forwarded, next_report);
  return forwarded;
}

void WorkerRecord::remember(const WorkerUp& message) {
  if (std::holds_alternative<WorkerHello>(message)) hello_ = message;
  if (std::holds_alternative<WorkerReady>(message)) ready_ = message;
  if (std::holds_alternative<WorkerHalted>(message)) halted_ = message;
  if (is_term(message)) term_ = message;
  if (std::holds_alternative<WorkerActive>(message)) {
    active_ = message;
    halted_.reset();
  }
  if (std::holds_alternative<WorkerPrepared>(message) || std::holds_alternative<WorkerPrepareFailed>(message)) {
    preparation_ = message;
  }
  if (std::holds_alternative<WorkerLeft>(message) || std::holds_alternative<WorkerFinished>(message)) {
    ending_ = message;
    over_ = true;
  }
}

void WorkerRecord::keep(const WorkerUp& message, std::uint64_t next_report) {
  const std::size_t bytes = kept_cost(message);
  if (bytes == 0 || is_term(message)) return;
  ET_CHECK(kept_.empty() || next_report >= kept_.back().report, "numbers of reports only rise");
  kept_.push_back({message, bytes, next_report});
  kept_bytes_ += bytes;
  while (kept_.size() > kMaxKept || kept_bytes_ > kMaxKeptBytes) {
    forget_oldest();
    ++lost_;
  }
}

void WorkerRecord::forget_oldest() {
  ET_CHECK(!kept_.empty() && kept_bytes_ >= kept_.front().bytes, "what is forgotten was kept and counted");
  kept_bytes_ -= kept_.front().bytes;
  kept_.pop_front();
}

void WorkerRecord::acknowledged(std::uint64_t report) {
  while (!kept_.empty() && kept_.front().report <= report) forget_oldest();
  // Messages that were dropped for lack of space are older, so they were received as well.
  if (kept_.empty()) lost_ = 0;
}

std::optional<WorkerSample> WorkerRecord::sample(WorkerId worker, TimePoint now, std::chrono::milliseconds quiet_after,
                                                 const ProcessSample& process) {
  if (!should_speak() && !heartbeat_is_new_) return std::nullopt;
  const auto quiet = std::chrono::duration_cast<std::chrono::milliseconds>(now - last_seen_);
  const bool changed = heartbeat_is_new_ || process.stopped != was_stopped_;
  if (!changed && quiet < quiet_after) return std::nullopt;
  WorkerSample entry{worker, static_cast<std::uint64_t>(quiet.count()), heartbeat_.value_or(WorkerHeartbeat{}),
                     process.cpu_ms, process.stopped};
  if (!heartbeat_is_new_) entry.heartbeat.steps = 0;
  heartbeat_is_new_ = false;
  was_stopped_ = process.stopped;
  return entry;
}

std::vector<WorkerUp> WorkerRecord::resync(std::uint64_t next_report) {
  std::vector<WorkerUp> messages;
  // WorkerActive before WorkerReady: a supervisor that does not know the assignment must not take it for a new worker.
  for (const auto* part : {&hello_, &active_, &ready_, &preparation_, &halted_, &term_}) {
    if (*part) messages.push_back(**part);
  }
  ET_CHECK(kept_.empty() || next_report >= kept_.back().report, "numbers of reports only rise");
  for (Kept& kept : kept_) {
    messages.push_back(kept.message);
    kept.report = next_report;
  }
  if (lost_ > 0) {
    messages.push_back(WorkerNote{"messages_lost", std::to_string(std::exchange(lost_, 0)) +
                                                       " notes or audit batches, while the supervisor was away"});
  }
  if (ending_) messages.push_back(*ending_);
  return messages;
}

}  // namespace elastictrain::launcher
