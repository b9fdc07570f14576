// Purpose: the run's progress from its workers' heartbeats: epoch, step, loss, speed. Pure.
#pragma once

#include "supervisor/protocol/worker_messages.h"

namespace elastictrain {

class Progress {
 public:
  // Of a member; other workers are recognized by their generation, which is 0 or not the current one.
  void on_heartbeat(const protocol::WorkerHeartbeat& heartbeat);

  const protocol::WorkerHeartbeat& newest() const { return newest_; }

 private:
  protocol::WorkerHeartbeat newest_;
};

}  // namespace elastictrain
