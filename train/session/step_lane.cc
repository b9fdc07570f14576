#include "train/session/step_lane.h"

#include "train/session/control_plane.h"

namespace elastictrain::session {

std::span<float> StepLane::fill() {
  input_.swap_ready = plane_ != nullptr && plane_->swap_ready();
  input_.plan_stops = plane_ != nullptr && plane_->ready_to_stop();
  input_.wants_stop = plane_ != nullptr && plane_->orphaned();
  input_.ends_data = ends_data_;
  input_.claim = claim_;
  return seat_.lane.fill(input_);
}

}  // namespace elastictrain::session
