// Purpose: the figures of the steps: what a step cost, the gradient noise scale, the cost of a change. They go into the
// next step's lane, the heartbeats, the journal, and to the program.
//
// Ownership: the worker; the step report is the program's view. Thread: the training thread; monitors().heartbeat() on
// the control thread. Failure: none.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "train/session/control_lane.h"
#include "train/session/course.h"
#include "train/session/monitors.h"
#include "train/session/open_step.h"
#include "train/session/reports.h"
#include "train/session/seat.h"
#include "train/session/swap_gap.h"

namespace elastictrain::session {

class Measurements {
 public:
  Measurements(const Reports& reports, StepReport& report) : reports_(reports), report_(report) {}

  StepClock& clock() { return clock_; }
  Monitors& monitors() { return monitors_; }

  // The step's lane: the figures that all workers know of the step before.
  void lane_read(const OpenStep& step, const LaneOutput& lane);
  // Returns what the next step's lane carries.
  LaneInput step_ends(const OpenStep& step, double loss, Clock::time_point now);
  // A batch of a round that goes on.
  void batch_ends(Clock::time_point now);
  // The time of the last batch, without that in which this worker waited for others.
  Clock::duration own_step() const;
  // For the supervisor, after the step is committed.
  void publish(const StepDivision& step, const Course& course, const Seat& seat, Clock::time_point now);

  // Before the first step of a generation.
  void seated(Generation generation, Step committed_step) { monitors_.seated(generation, committed_step); }
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

// The connections of the current seat, for a program. Empty traffic while buckets are reduced in the background.
std::vector<PeerMonitors> peer_monitors_of(const Seat& seat);
void add_traffic(RunMonitors& monitors, const Seat& seat);

}  // namespace elastictrain::session
