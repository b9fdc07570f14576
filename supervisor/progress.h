// Purpose: the run's progress from its workers' heartbeats, and from what they say last: epoch, step, loss, speed.
// Pure.
#pragma once

#include <algorithm>
#include <optional>

#include "supervisor/core/pure/run_view.h"
#include "supervisor/protocol/worker_messages.h"

namespace elastictrain {

class Progress {
 public:
  // Of a member; other workers are recognized by their generation, which is 0 or not the current one.
  void on_heartbeat(const protocol::WorkerHeartbeat& heartbeat);

  // A worker has ended with this step of the whole job.
  void on_last_step(Step step) { last_step_ = std::max(last_step_, step); }

  const protocol::WorkerHeartbeat& newest() const { return newest_; }
  Step step() const { return std::max(last_step_, newest_.step); }
  // Of step(); 0: not known.
  double loss() const { return newest_.step == step() ? newest_.loss : 0; }

 private:
  protocol::WorkerHeartbeat newest_;
  Step last_step_ = 0;
};

// Until the program has taken its last step, at the present speed; nothing: it has not said how long it trains.
std::optional<double> time_left_s(const protocol::WorkerHeartbeat& newest, const core::RunView& run);

}  // namespace elastictrain
