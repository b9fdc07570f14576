#include "train/session/audit.h"

#include <algorithm>
#include <set>
#include <utility>

#include "train/session/control_plane.h"

namespace elastictrain::session {
namespace {

bool counts(const AuditedStep& step, WorkerId worker) {
  return step.all_count || std::binary_search(step.holders.begin(), step.holders.end(), worker);
}

// The positions of `worker` in this step: empty if it had no share, or if its share does not count.
std::vector<state::Interval> pieces_of(const AuditedStep& step, WorkerId worker) {
  if (!counts(step, worker)) return {};
  for (std::size_t rank = 0; rank < step.shares.size(); ++rank) {
    if (step.shares[rank].worker != worker) continue;
    return step.shares[rank].is_lost ? std::vector<state::Interval>() : step.cut.part(rank);
  }
  return {};
}

protocol::AuditStep record_of(const AuditedStep& step, const state::Interval& piece) {
  return {.generation = step.generation,
          .step = step.step,
          .epoch = step.cut.epoch,
          .first_position = piece.first,
          .count = piece.count};
}

}  // namespace

void AuditLog::add(AuditedStep step, WorkerId self, std::optional<std::uint64_t> state_hash) {
  const std::lock_guard lock(mutex_);
  auto pieces = pieces_of(step, self);
  if (pieces.empty()) pieces.push_back({step.cut.pieces.empty() ? 0 : step.cut.pieces.front().first, 0});
  for (const auto& piece : pieces) {
    auto record = record_of(step, piece);
    record.hashed = state_hash.has_value();
    record.state_hash = std::exchange(state_hash, std::nullopt).value_or(0);
    waiting_.push_back(record);
  }
  while (waiting_.size() > kMaxWaiting) waiting_.pop_front();
  remembered_.push_back(std::move(step));
  if (remembered_.size() > kRemembered) remembered_.pop_front();
}

void AuditLog::add_state(Generation generation, const state::Progress& progress, std::uint64_t counted_anew) {
  const auto& sampler = progress.sampler;
  protocol::WorkerAudit audit{.from_checkpoint = true, .counted_anew = counted_anew};
  const auto used = [&](std::uint64_t first, std::uint64_t last) {
    audit.steps.push_back({.generation = generation,
                           .step = progress.committed_step,
                           .epoch = sampler.epoch,
                           .first_position = first,
                           .count = last - first});
  };
  std::uint64_t at = 0;
  for (const auto& returned : sampler.returned) {
    if (returned.first > at) used(at, returned.first);
    at = returned.first + returned.count;
  }
  used(at, std::max(at, sampler.cursor));
  const std::lock_guard lock(mutex_);
  waiting_for_others_.push_back(std::move(audit));
}

void AuditLog::add_for(WorkerId worker, std::size_t max_steps) {
  const std::lock_guard lock(mutex_);
  protocol::WorkerAudit audit{.of = worker};
  const std::size_t first = remembered_.size() - std::min(max_steps, remembered_.size());
  for (std::size_t i = first; i < remembered_.size(); ++i) {
    for (const auto& piece : pieces_of(remembered_[i], worker)) {
      audit.steps.push_back(record_of(remembered_[i], piece));
    }
  }
  if (!audit.steps.empty()) waiting_for_others_.push_back(std::move(audit));
}

std::vector<protocol::WorkerAudit> AuditLog::take() {
  const std::lock_guard lock(mutex_);
  auto messages = std::exchange(waiting_for_others_, {});
  if (!waiting_.empty()) {
    messages.emplace_back();
    messages.back().steps.assign(waiting_.begin(), waiting_.end());
    waiting_.clear();
  }
  for (auto& message : messages) message.batch = ++batches_;
  return messages;
}

namespace {

constexpr std::size_t kStepsOfLeavers = 1024;  // more than the shortest steps between two heartbeats

bool holds(const std::vector<WorkerId>& holders, WorkerId worker) {
  return std::find(holders.begin(), holders.end(), worker) != holders.end();
}

}  // namespace

void Audits::step_committed(OpenStep step) {
  if (!is_on() || parts_.plane == nullptr) return;
  const auto hash = hash_of(step);
  const auto& assignment = parts_.assignment;
  AuditedStep audited{.generation = assignment.generation,
                      .step = parts_.run_progress.committed_step(),
                      .cut = step.division.used_cut(),
                      .shares = std::move(step.division.shares),
                      .all_count = !assignment.repeats_step};
  if (assignment.repeats_step && parts_.keeps_inputs) audited.holders = assignment.holders;
  log_.add(std::move(audited), parts_.self, hash);
}

std::optional<std::uint64_t> Audits::hash_of(const OpenStep& step) {
  if (parts_.run_progress.committed_step() % parts_.hash_every != 0 || step.averages) return std::nullopt;
  const auto content = parts_.buffers.content_hash();
  if (!content) parts_.lifecycle.fail("the state cannot be read: " + content.error().message);
  return *content;
}

void Audits::state_received() {
  if (is_on()) received_ = Received{parts_.assignment.generation, parts_.run_progress.progress()};
}

void Audits::account_for_checkpoint(bool is_counted_anew) {
  log_.add_state(parts_.assignment.generation, parts_.run_progress.progress(),
                 is_counted_anew ? parts_.run_progress.sample_count() : 0);
  report();
}

void Audits::report() {
  if (parts_.plane != nullptr) parts_.plane->send_in_turn([this] { return waiting(); });
}

void Audits::report_leavers() {
  if (!is_on()) return;
  for (const auto& share : shares_before_) {
    if (parts_.assignment.rank == 0 && !parts_.assignment.has(share.worker))
      log_.add_for(share.worker, kStepsOfLeavers);
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
  look(parts_.run_progress.next_shares());
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
