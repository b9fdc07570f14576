// Purpose: this worker's seat and the communicators behind it, through every exchange: at a boundary the old
// communicator stays until the new generation has reduced, because other workers may still be reading from it; after a
// loss nobody does.
//
// Ownership: the worker; communicators are given back to the control plane, which destroys them in the background.
// Thread: the training thread. Failure: none.
#pragma once

#include <memory>
#include <vector>

#include "train/session/seat.h"

namespace elastictrain::session {

class ControlPlane;

class Seating {
 public:
  explicit Seating(ControlPlane* plane) : plane_(plane) {}  // null without a launcher

  // The object stays the same through all exchanges.
  Seat& seat() { return seat_; }
  const Seat& seat() const { return seat_; }

  void take_first(Seat seat) { seat_ = std::move(seat); }
  // Both return the shares of the seat before.
  std::vector<state::WorkerShare> move_to(Seat next);     // at a boundary
  std::vector<state::WorkerShare> replace_by(Seat next);  // after a loss

  // The buckets of a step are reduced in the current generation.
  void step_reduced();
  void step_committed() { seat_.repeats_step = false; }

  // This worker has no seat anymore; its communicators close in the background, or at once.
  void leave();
  void close();

 private:
  ControlPlane* const plane_;
  Seat seat_;
  std::shared_ptr<comm::Communicator> old_communicator_;
};

}  // namespace elastictrain::session
