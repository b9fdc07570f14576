// Purpose: figures of a worker's steps for the lane, heartbeats, journal and program, and the cost of a change to
// it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "supervisor/protocol/worker_messages.h"
#include "train/session/control_lane.h"
#include "train/session/device_access.h"
#include "train/session/generation.h"
#include "train/session/monitors.h"
#include "train/session/run_progress.h"
#include "train/session/step_buckets.h"
#include "train/session/supervisor_messages.h"

// The cost of a change to this worker: the time from its last commit before the change to its first one after
// it, reported together with a typical step time at the new size, which takes some steps to measure.
//
// Ownership: the session. Thread: training thread. Time is an argument.

namespace elastictrain::session {

class SwapGap {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void committed(Time now);
  // This worker continues in `generation`, after the step that was committed last. Nothing is reported where it has
  // committed none: another worker was lost in its first step.
  void swapped(Generation generation);
  // The report on the last change, once, when enough steps have been measured.
  std::optional<protocol::WorkerSwap> take();
  // The same with the steps measured so far; nullopt if they do not give a typical step time.
  std::optional<protocol::WorkerSwap> take_early();

 private:
  Generation generation_ = 0;  // 0: nothing to report
  std::optional<Time> last_commit_;
  std::vector<double> gaps_us_;  // the first is the one of the change
};

// The figures of the steps: what a step cost, the gradient noise scale, the cost of a change. They go into the
// next step's lane, the heartbeats, the journal, and to the program.
//
// Ownership: the worker; the step report is the program's view. Thread: the training thread; monitors().heartbeat() on
// the control thread. Failure: none.

class Measurements {
 public:
  Measurements(const Reports& reports, StepReport& report) : reports_(reports), report_(report) {}

  StepClock& clock() { return clock_; }
  Monitors& monitors() { return monitors_; }
  void device_memory_known(const protocol::DeviceMemoryUse& use) { monitors_.device_memory_known(use); }

  // The step's lane: the figures that all workers know of the step before.
  void lane_read(const OpenStep& step, const LaneOutput& lane);
  // Returns what the next step's lane carries.
  LaneInput step_ends(const OpenStep& step, double loss, Clock::time_point now);
  // A batch of a round that goes on.
  void batch_ends(Clock::time_point now);
  // The time of the last batch, without that in which this worker waited for others.
  Clock::duration own_step() const;
  // For the supervisor, after the step is committed. `device`: null without a GPU.
  void publish(const StepDivision& step, const RunProgress& run_progress, const Assignment& assignment,
               const DeviceSide* device, Clock::time_point now);

  // Before the first step of a generation.
  void assigned(Generation generation, Step committed_step) { monitors_.assigned(generation, committed_step); }
  // This worker continues in `generation`, after the step that was committed last.
  void swapped(Generation generation) { swap_gap_.swapped(generation); }
  // What is known of the last change, before the next one or the end.
  void report_swap_early();
  // The figures of the last step, before this worker's last message: the next heartbeat may not come.
  std::vector<protocol::WorkerToAgent> last_heartbeat();

  RunMonitors run_monitors(const LaneOutput& lane) const;

 private:
  // Gradient norms of the last measured step, until the next step's lane brings the mean of the workers' own.
  struct PendingNorms {
    std::uint32_t workers = 0;  // that had samples in it
    StepNorms norms;
  };
  static PendingNorms pending_norms_of(const OpenStep& step);

  void take_norms(const LaneOutput& lane);
  void report_swap(const std::optional<protocol::WorkerSwap>& swap);

  const Reports& reports_;
  StepReport& report_;
  bool has_new_loss_ = false;
  StepClock clock_;
  Monitors monitors_;
  NoiseScale noise_scale_;
  StepTimes last_times_;
  std::optional<PendingNorms> pending_norms_;
  double gradient_variance_ = 0;
  SwapGap swap_gap_;
};

// The connections of the current assignment, for a program. Empty traffic while buckets are reduced in the background.
std::vector<PeerMonitors> peer_monitors_of(const Assignment& assignment);
void add_traffic(RunMonitors& monitors, const Assignment& assignment);

}  // namespace elastictrain::session
