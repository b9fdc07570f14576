// Purpose: this worker's part in the control lane of each step: what it puts in, and what the last sum said.
// Ownership: the worker. Thread: fill() on the thread that reduces, the rest on the training thread. Failure: none.
#pragma once

#include <atomic>
#include <span>

#include "train/session/control_lane.h"
#include "train/session/seat.h"

namespace elastictrain::session {

class ControlPlane;

class StepLane {
 public:
  // `plane`: null without a launcher. `seat`: the current one.
  StepLane(ControlPlane* plane, Seat& seat) : plane_(plane), seat_(seat) {}

  // From the next lane on.
  void end_data() { ends_data_ = true; }

  bool ends_data() const { return ends_data_; }
  // In all lanes until the next call.
  void claim(const Claim& claim) { claim_ = claim; }

  std::span<float> fill();
  const LaneOutput& read() { return output_ = seat_.lane.read(); }
  const LaneOutput& last() const { return output_; }
  // The figures of the committed step, which the next step's lane carries.
  void report(const LaneInput& figures) { input_ = figures; }

 private:
  ControlPlane* const plane_;
  Seat& seat_;
  std::atomic<bool> ends_data_{false};
  LaneInput input_;
  Claim claim_;
  LaneOutput output_;
};

}  // namespace elastictrain::session
