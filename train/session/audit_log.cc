#include "train/session/audit_log.h"

namespace elastictrain::session {

void AuditLog::add(const protocol::AuditStep& step) {
  const std::lock_guard lock(mutex_);
  if (waiting_.size() == kMaxWaiting) waiting_.pop_front();
  waiting_.push_back(step);
}

std::optional<protocol::WorkerAudit> AuditLog::take() {
  const std::lock_guard lock(mutex_);
  if (waiting_.empty()) return std::nullopt;
  protocol::WorkerAudit message;
  message.steps.assign(waiting_.begin(), waiting_.end());
  waiting_.clear();
  return message;
}

}  // namespace elastictrain::session
