#include "train/session/audits.h"

#include <algorithm>
#include <set>
#include <utility>

#include "train/session/control_plane.h"

namespace elastictrain::session {
namespace {

constexpr std::size_t kStepsOfLeavers = 1024;  // more than the shortest steps between two heartbeats

bool holds(const std::vector<WorkerId>& holders, WorkerId worker) {
  return std::find(holders.begin(), holders.end(), worker) != holders.end();
}

}  // namespace

void Audits::step_committed(OpenStep step) {
  if (!is_on() || parts_.plane == nullptr) return;
  const auto hash = hash_of(step);
  const auto& seat = parts_.seat;
  AuditedStep audited{.generation = seat.generation,
                      .step = parts_.course.committed_step(),
                      .cut = step.division.used_cut(),
                      .shares = std::move(step.division.shares),
                      .all_count = !seat.repeats_step};
  if (seat.repeats_step && parts_.keeps_inputs) audited.holders = seat.holders;
  log_.add(std::move(audited), parts_.self, hash);
}

std::optional<std::uint64_t> Audits::hash_of(const OpenStep& step) {
  if (parts_.course.committed_step() % parts_.hash_every != 0 || step.averages) return std::nullopt;
  const auto content = parts_.buffers.content_hash();
  if (!content) parts_.lifecycle.fail("the state cannot be read: " + content.error().message);
  return *content;
}

void Audits::state_received() {
  if (is_on()) received_ = Received{parts_.seat.generation, parts_.course.progress()};
}

void Audits::account_for_checkpoint() {
  log_.add_state(parts_.seat.generation, parts_.course.progress());
  report();
}

void Audits::report() {
  if (parts_.plane != nullptr) parts_.plane->send_in_turn([this] { return waiting(); });
}

void Audits::report_leavers() {
  if (!is_on()) return;
  for (const auto& share : shares_before_) {
    if (parts_.seat.rank == 0 && !parts_.seat.has(share.worker)) log_.add_for(share.worker, kStepsOfLeavers);
  }
  report();
}

void Audits::report_lost(const std::vector<state::WorkerShare>& before, const std::vector<WorkerId>& holders) {
  if (!is_on() || !holds(holders, parts_.self)) return;
  std::set<WorkerId> lost;
  const auto look = [&](const std::vector<state::WorkerShare>& shares) {
    for (const auto& share : shares) {
      if (!holds(holders, share.worker)) lost.insert(share.worker);
    }
  };
  look(before);
  look(std::exchange(shares_before_, {}));
  look(parts_.course.next_shares());
  for (const WorkerId worker : lost) log_.add_for(worker);
  if (lost.empty()) return;
  // This worker cannot report step by step what led to the state that it received, and the workers that could may be
  // lost.
  if (const auto received = std::exchange(received_, std::nullopt)) {
    log_.add_state(received->generation, received->progress);
  }
  report();
}

std::vector<protocol::WorkerToAgent> Audits::waiting() {
  std::vector<protocol::WorkerToAgent> messages;
  for (auto& records : log_.take()) messages.emplace_back(std::move(records));
  return messages;
}

}  // namespace elastictrain::session
