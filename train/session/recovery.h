// Purpose: recovers this worker when its generation is void: it waits for the next seat and repeats the open step, or
// discards that step and receives the state.
//
// Ownership: the worker. Thread: the training thread. Failure: an orphaned worker saves its last committed step and
// stops.
#pragma once

#include <optional>

#include "train/session/audits.h"
#include "train/session/checkpoints.h"
#include "train/session/control_plane.h"
#include "train/session/course.h"
#include "train/session/lifecycle.h"
#include "train/session/measurements.h"
#include "train/session/membership.h"
#include "train/session/replicas.h"
#include "train/session/seat_view.h"
#include "train/session/seating.h"
#include "train/session/state_handover.h"
#include "train/session/step_runner.h"

namespace elastictrain::session {

class Recovery {
 public:
  struct Parts {
    ControlPlane* plane;  // null without a launcher: nothing here is called then
    Seating& seating;
    SeatView& view;
    Course& course;
    const Replicas& replicas;
    StateHandover& handover;
    const StepRunner& runner;
    Checkpoints& checkpoints;
    Audits& audits;
    Measurements& measurements;
    Membership& membership;
    Lifecycle& lifecycle;
  };
  explicit Recovery(const Parts& parts) : parts_(parts) {}

  // Waits for the next seat. True: the open step (or the last barrier) can be tried again on it. False: the open step
  // is given up; the run continues with rejoin() at the boundary, or the lifecycle says that it is over.
  bool take_seat();
  // At the boundary: receives the state of the step that the others have. Returns without a seat if the run is over, or
  // this worker has left and its process parks.
  void rejoin();
  void close() { promise_.reset(); }

 private:
  using Kind = ControlPlane::SeatKind;

  void sit_down(TakenSeat taken);
  void continue_on_seat(TakenSeat& taken, const std::vector<state::WorkerShare>& before);
  bool continue_step_without_state();
  bool end_here(const TakenSeat& taken);
  bool has_own_replica() const;
  void stop_as_orphan();

  const Parts parts_;
  std::optional<PromisedState> promise_;
};

}  // namespace elastictrain::session
