#include "supervisor/core/pure/failure_detector.h"

#include <algorithm>

namespace elastictrain::core {

Instant FailureDetector::watch(AgentId agent, Instant now) {
  records_[agent] = Record{now, Verdict::kHealthy};
  return now + suspect_;
}

bool FailureDetector::on_message(AgentId agent, Instant now) {
  const auto found = records_.find(agent);
  if (found == records_.end() || found->second.verdict == Verdict::kDead) return false;
  const bool was_suspect = found->second.verdict == Verdict::kSuspect;
  found->second = Record{now, Verdict::kHealthy};
  return was_suspect;
}

FailureDetector::Look FailureDetector::look(AgentId agent, Instant now) {
  const auto found = records_.find(agent);
  if (found == records_.end()) return {};
  Record& record = found->second;
  return record.verdict == Verdict::kHealthy ? look_at_healthy(record, now) : look_at_suspect(record, now);
}

FailureDetector::Look FailureDetector::look_at_healthy(Record& record, Instant now) const {
  if (now - record.last_seen < suspect_) return {Verdict::kHealthy, false, record.last_seen + suspect_};
  record.verdict = Verdict::kSuspect;
  // Half of `suspect` suffices to read what is queued on our own sockets, however late this look is.
  return {Verdict::kSuspect, true, std::max<Instant>(record.last_seen + dead_, now + suspect_ / 2)};
}

FailureDetector::Look FailureDetector::look_at_suspect(Record& record, Instant now) const {
  if (now - record.last_seen < dead_) return {Verdict::kSuspect, false, record.last_seen + dead_};
  const bool changed = record.verdict != Verdict::kDead;
  record.verdict = Verdict::kDead;
  return {Verdict::kDead, changed, now + dead_};
}

Millis FailureDetector::silence(AgentId agent, Instant now) const {
  const auto found = records_.find(agent);
  if (found == records_.end()) return Millis{0};
  return std::chrono::duration_cast<Millis>(now - found->second.last_seen);
}

}  // namespace elastictrain::core
