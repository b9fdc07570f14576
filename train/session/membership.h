// Purpose: the membership of a launched worker: it enters a generation, moves from one to the next at a boundary, and
// leaves. What follows a loss is in recovery.h.
//
// Ownership: the worker. Thread: the training thread. Failure: a worker that cannot take part ends the session; a
// generation that does not come is followed by the wait for the next one.
#pragma once

#include "train/session/attachments.h"
#include "train/session/audits.h"
#include "train/session/checkpoints.h"
#include "train/session/control_plane.h"
#include "train/session/course.h"
#include "train/session/early_values.h"
#include "train/session/first_state.h"
#include "train/session/forward_state.h"
#include "train/session/lifecycle.h"
#include "train/session/local_state.h"
#include "train/session/measurements.h"
#include "train/session/replicas.h"
#include "train/session/seat_view.h"
#include "train/session/seating.h"
#include "train/session/state_handover.h"
#include "train/session/step_log.h"

namespace elastictrain::session {

class Membership {
 public:
  struct Parts {
    ControlPlane* plane;  // null without a launcher: nothing here is called then
    bool process_may_park;
    const state::StateBuffers& buffers;
    StepLog& log;
    Seating& seating;
    SeatView& view;
    Course& course;
    EarlyValues& early;
    Attachments& attachments;
    ForwardState& forward;
    FirstState& first;
    LocalState& local;
    Replicas& replicas;
    StateHandover& handover;
    Checkpoints& checkpoints;
    Audits& audits;
    Measurements& measurements;
    Lifecycle& lifecycle;
  };
  // `has_foreign_state`: the process was another worker before, so its state is not the program's initial one.
  Membership(const Parts& parts, bool has_foreign_state) : parts_(parts), has_foreign_state_(has_foreign_state) {}

  void announce();
  // False: no seat will come; the lifecycle holds the outcome.
  bool take_first_seat();
  // At the boundary at which the lane reported that all workers are ready.
  void change();
  // A seat whose state arrives while the program computes. False: it is void, and another one may come.
  bool enter(PromisedState promise);
  void leave(const protocol::GenerationPlan& plan, Outcome outcome);

 private:
  bool end_before_seat(Outcome outcome);
  bool begin_first_generation(TakenSeat taken);
  void require_a_beginning();
  void resume_local_state();
  std::string describe_state() const;
  Status replicate_from_first_rank();
  void begin_training(const protocol::GenerationPlan& plan);
  void account_for_checkpoint();
  bool join(TakenSeat taken);
  void take_planned_seat(TakenSeat taken);

  const Parts parts_;
  bool has_foreign_state_;  // another worker's, or part of a first broadcast
};

}  // namespace elastictrain::session
