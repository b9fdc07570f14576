// Purpose: the run's progress from its workers' heartbeats: epoch, step, loss, speed. Pure.
#pragma once

#include <optional>

#include "supervisor/core/run_view.h"
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

// Until the program has taken its last step, at the present speed; nothing: it has not said how long it trains.
std::optional<double> time_left_s(const protocol::WorkerHeartbeat& newest, const core::RunView& run);

}  // namespace elastictrain
