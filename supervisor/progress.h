// Purpose: figures of a run from its workers' messages: progress (epoch, step, loss, speed), and the idle time of
// each change. Pure.
#pragma once

#include <algorithm>
#include <optional>
#include <set>

#include "supervisor/core/pure/run_view.h"
#include "supervisor/protocol/worker_messages.h"

// The run's progress from its workers' heartbeats, and from what they say last: epoch, step, loss, speed.
// Pure.

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

// The idle time of each change from what its survivors measured. Pure.
//
// Idle time is the longest time in which no worker committed a step, less a median step of the new size. Each survivor
// reports the gap between its own last commit before the change and its first one after it. No worker commits within
// the shortest of these gaps, so that one counts, with the median step of the same survivor. A change is closed when
// all survivors have reported; otherwise with the reports so far, when the change after the next one is committed or
// the run ends: a recovery is followed at once by the change that brings a replacement, and survivors report the cost
// of the recovery during that change.

class IdleTimes {
 public:
  struct Idle {
    Generation generation = 0;
    double seconds = 0;
  };

  void planned(const protocol::GenerationPlan& plan);
  // Of a change that must be closed now.
  std::optional<Idle> committed(Generation generation);
  std::optional<Idle> measured(WorkerId worker, const protocol::WorkerSwap& swap);
  // At the end of the run: a change that is still open; call again until there is none.
  std::optional<Idle> close();

  // Measurements of an earlier supervisor of this run, from its journal.
  void recall(double idle_s) {
    last_s_ = idle_s;
    total_s_ += idle_s;
  }

  double total_s() const { return total_s_; }
  // Of the last change; nothing while it is not known, or if nothing has changed.
  std::optional<double> last_s() const { return last_s_; }

 private:
  struct Open {
    Generation generation = 0;
    std::set<WorkerId> missing;
    std::optional<protocol::WorkerSwap> shortest;
  };

  std::optional<Idle> measured(std::optional<Open>& change, WorkerId worker, const protocol::WorkerSwap& swap);
  std::optional<Idle> finish(std::optional<Open>& change);

  Generation planned_ = 0;
  std::set<WorkerId> planned_survivors_;
  Generation committed_ = 0;
  std::optional<Open> open_;
  std::optional<Open> before_;
  double total_s_ = 0;
  std::optional<double> last_s_;
};

}  // namespace elastictrain
