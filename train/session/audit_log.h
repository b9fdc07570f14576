// Purpose: the audit records of committed steps on their way to the supervisor, batched between heartbeats.
// Thread: any. Failure: while the agent is away the oldest records are dropped beyond a bound; the gap in the steps
// shows it.
#pragma once

#include <deque>
#include <mutex>
#include <optional>

#include "supervisor/protocol/message.h"

namespace elastictrain::session {

class AuditLog {
 public:
  void add(const protocol::AuditStep& step);
  // Everything that waits, as one message.
  std::optional<protocol::WorkerAudit> take();

 private:
  static constexpr std::size_t kMaxWaiting = 100'000;
  std::mutex mutex_;
  std::deque<protocol::AuditStep> waiting_;
};

}  // namespace elastictrain::session
