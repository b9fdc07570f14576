#include "launcher/agent/worker_record.h"

namespace elastictrain::launcher {

using namespace protocol;

WorkerHeartbeat fold(const WorkerHeartbeat& older, const WorkerHeartbeat& newer) {
  WorkerHeartbeat folded = newer;
  folded.steps = older.steps + newer.steps;
  if (older.steps == 0 || newer.steps == 0) {
    if (newer.steps != 0) return folded;
    folded = older;
    folded.sequence = newer.sequence;
    folded.generation = newer.generation;
    folded.step = newer.step;
    return folded;
  }
  const double part = static_cast<double>(newer.steps) / folded.steps;
  const auto mean = [part](double before, double after) { return before + (after - before) * part; };
  folded.step_us = mean(older.step_us, newer.step_us);
  folded.data_wait_us = mean(older.data_wait_us, newer.data_wait_us);
  folded.compute_us = mean(older.compute_us, newer.compute_us);
  folded.communicate_us = mean(older.communicate_us, newer.communicate_us);
  folded.update_us = mean(older.update_us, newer.update_us);
  folded.samples_per_s = mean(older.samples_per_s, newer.samples_per_s);
  return folded;
}

bool WorkerRecord::take(const WorkerUp& message, TimePoint now) {
  last_heard_ = now;
  if (const auto* heartbeat = std::get_if<WorkerHeartbeat>(&message)) {
    heartbeat_ = heartbeat_is_new_ ? fold(*heartbeat_, *heartbeat) : *heartbeat;
    heartbeat_is_new_ = true;
    return false;
  }
  if (std::holds_alternative<WorkerHello>(message)) hello_ = message;
  if (std::holds_alternative<WorkerReady>(message)) ready_ = message;
  if (std::holds_alternative<WorkerActive>(message)) active_ = message;
  if (std::holds_alternative<WorkerPrepared>(message) || std::holds_alternative<WorkerPrepareFailed>(message)) {
    preparation_ = message;
  }
  if (std::holds_alternative<WorkerLeft>(message) || std::holds_alternative<WorkerFinished>(message)) {
    ending_ = message;
    over_ = true;
  }
  return true;
}

std::optional<WorkerPulse> WorkerRecord::pulse(WorkerId worker, TimePoint now, std::chrono::milliseconds quiet_after) {
  if (!should_speak() && !heartbeat_is_new_) return std::nullopt;
  const auto quiet = std::chrono::duration_cast<std::chrono::milliseconds>(now - last_heard_);
  if (!heartbeat_is_new_ && quiet < quiet_after) return std::nullopt;
  WorkerPulse entry{worker, static_cast<std::uint64_t>(quiet.count()), heartbeat_.value_or(WorkerHeartbeat{})};
  if (!heartbeat_is_new_) entry.heartbeat.steps = 0;
  heartbeat_is_new_ = false;
  return entry;
}

std::vector<WorkerUp> WorkerRecord::truth() const {
  std::vector<WorkerUp> messages;
  for (const auto* part : {&hello_, &ready_, &preparation_, &active_}) {
    if (*part) messages.push_back(**part);
  }
  messages.insert(messages.end(), kept_.begin(), kept_.end());
  if (ending_) messages.push_back(*ending_);
  return messages;
}

void WorkerRecord::keep_for_later(const WorkerUp& message) {
  const bool kept = std::holds_alternative<WorkerNote>(message) || std::holds_alternative<WorkerAudit>(message) ||
                    std::holds_alternative<WorkerSwap>(message);
  if (!kept) return;
  kept_.push_back(message);
  if (kept_.size() > kMaxKept) kept_.pop_front();
}

}  // namespace elastictrain::launcher
