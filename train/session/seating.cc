#include "train/session/seating.h"

#include <utility>

#include "supervisor/protocol/check.h"
#include "train/session/control_plane.h"

namespace elastictrain::session {

std::vector<state::WorkerShare> Seating::move_to(Seat next) {
  ET_CHECK(!old_communicator_, "the generation before the last one has ended");
  old_communicator_ = std::move(seat_.communicator);
  return std::exchange(seat_, std::move(next)).shares;
}

std::vector<state::WorkerShare> Seating::replace_by(Seat next) {
  plane_->retire(std::move(seat_.communicator));
  plane_->retire(std::move(old_communicator_));
  return std::exchange(seat_, std::move(next)).shares;
}

void Seating::step_reduced() {
  if (old_communicator_) plane_->retire(std::move(old_communicator_));
}

void Seating::leave() {
  plane_->retire(std::move(seat_.communicator));
  plane_->retire(std::move(old_communicator_));
  seat_ = {};
}

void Seating::close() {
  seat_.communicator.reset();
  old_communicator_.reset();
}

}  // namespace elastictrain::session
