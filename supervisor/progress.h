// Purpose: the run's progress from its workers' heartbeats: epoch, step, loss, speed, and an estimate of the idle time
// that changes have cost. Pure; time is an argument.
//
// The estimate: around a change, the time between two heartbeats, less what the steps between them take at the pace
// before it. Heartbeats come in periods, so one change's figure is good to about a period and a step; the workers' own
// step log measures it exactly.
#pragma once

#include <cstdint>
#include <optional>

#include "supervisor/protocol/message.h"

namespace elastictrain {

class Progress {
 public:
  // Of a member; others are told apart by their generation, which is 0 or not the current one.
  void heard(const protocol::WorkerHeartbeat& heartbeat, Instant now);
  void committed(Generation generation);

  const protocol::WorkerHeartbeat& newest() const { return newest_; }
  double idle_s() const { return idle_s_; }
  // The last change's estimate, once, when it is known.
  struct Idle {
    Generation generation = 0;
    double seconds = 0;
  };
  std::optional<Idle> take_idle();

 private:
  void judge_change(const protocol::WorkerHeartbeat& heartbeat, Instant now);

  protocol::WorkerHeartbeat newest_;
  Instant newest_at_;
  double step_us_ = 0;      // typical time of a step in the generation that trains
  Generation awaited_ = 0;  // the change whose first steps have not been heard of
  Step step_before_ = 0;
  Instant heard_before_;
  double step_us_before_ = 0;
  double idle_s_ = 0;
  std::optional<Idle> fresh_;
};

}  // namespace elastictrain
