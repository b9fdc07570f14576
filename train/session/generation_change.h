// Purpose: passage of a worker from one generation to the next: its entry, planned changes at a boundary, recovery
// after a loss, its end, and the view of each generation that the program has.
#pragma once

#include <optional>

#include "train/session/audit.h"
#include "train/session/auxiliary_state.h"
#include "train/session/checkpoints.h"
#include "train/session/control_plane.h"
#include "train/session/generation.h"
#include "train/session/lifecycle.h"
#include "train/session/measurements.h"
#include "train/session/model_averaging.h"
#include "train/session/program.h"
#include "train/session/run_progress.h"
#include "train/session/state_handover.h"
#include "train/session/step_log.h"
#include "train/session/step_runner.h"
#include "train/session/supervisor_messages.h"

// Shows the program its assignment, which for it is constant from one boundary to the next. Ownership: the worker;
// the view and the callback are the program's. Thread: the training thread. Failure: what the callback
// throws, after which the session has failed.

namespace elastictrain::session {

class AssignmentView {
 public:
  AssignmentView(const std::function<void(const Change&)>& on_change, ProgramView& view, const Assignment& assignment,
                 const ModelAveraging& averaging, const Reports& reports, Lifecycle& lifecycle)
      : on_change_(on_change),
        view_(view),
        assignment_(assignment),
        averaging_(averaging),
        reports_(reports),
        lifecycle_(lifecycle) {}

  // The program has not seen the current assignment.
  bool is_behind() const { return view_.generation != assignment_.generation; }
  void publish() { show(view_.world_size, false); }
  // This worker's first generation. `present`: members that were there before; 0 in the first generation of a run.
  void publish_first(std::uint32_t present) { show(present, true); }

 private:
  void show(std::uint32_t previous_world_size, bool joined_now);
  void report_missing_model();
  void call_program(const Change& change);

  const std::function<void(const Change&)>& on_change_;
  ProgramView& view_;
  const Assignment& assignment_;
  const ModelAveraging& averaging_;
  const Reports& reports_;
  Lifecycle& lifecycle_;
};

// The membership of a launched worker: it enters a generation, moves from one to the next at a boundary, and
// leaves. Recovery has what follows a loss.
//
// Ownership: the worker. Thread: the training thread. Failure: a worker that cannot take part ends the session; a
// generation that does not come is followed by the wait for the next one.

class GenerationChange {
 public:
  struct Parts {
    ControlPlane* plane;  // null without a launcher: nothing here is called then
    bool process_may_park;
    const state::StateBuffers& buffers;
    StepLog& log;
    AssignmentExchange& exchange;
    AssignmentView& view;
    RunProgress& run_progress;
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
  GenerationChange(const Parts& parts, bool has_foreign_state) : parts_(parts), has_foreign_state_(has_foreign_state) {}

  void announce();
  // False: no assignment will come; the lifecycle holds the outcome.
  bool take_first_assignment();
  // At the boundary at which the lane reported that all workers are ready.
  void change();
  // An assignment whose state arrives while the program computes. False: it is void, and another one may come.
  bool enter(PromisedState promise);
  void leave(const protocol::GenerationPlan& plan, Outcome outcome);

 private:
  bool end_before_assignment(Outcome outcome);
  bool begin_first_generation(TakenAssignment taken);
  void require_a_beginning();
  void resume_local_state();
  std::string describe_state() const;
  Status replicate_from_first_rank();
  void begin_training(const protocol::GenerationPlan& plan);
  void account_for_checkpoint();
  bool join(TakenAssignment taken);
  void take_planned_assignment(TakenAssignment taken);

  const Parts parts_;
  bool has_foreign_state_;  // another worker's, or part of a first broadcast
};

// Recovers this worker when its generation is void: it waits for the next assignment and repeats the open step, or
// discards that step and receives the state.
//
// Ownership: the worker. Thread: the training thread. Failure: an orphaned worker saves its last committed step and
// stops.

class Recovery {
 public:
  struct Parts {
    ControlPlane* plane;  // null without a launcher: nothing here is called then
    AssignmentExchange& exchange;
    AssignmentView& view;
    RunProgress& run_progress;
    const Replicas& replicas;
    StateHandover& handover;
    const StepRunner& runner;
    Checkpoints& checkpoints;
    Audits& audits;
    Measurements& measurements;
    GenerationChange& generation_change;
    Lifecycle& lifecycle;
  };
  explicit Recovery(const Parts& parts) : parts_(parts) {}

  // Waits for the next assignment. True: the open step (or the last barrier) can be tried again on it. False: the open
  // step is given up; the run continues with rejoin() at the boundary, or the lifecycle says that it is over.
  bool take_assignment();
  // At the boundary: receives the state of the step that the others have. Returns without an assignment if the run is
  // over, or this worker has left and its process parks.
  void rejoin();
  void close() { promise_.reset(); }

 private:
  using Kind = ControlPlane::AssignmentKind;

  void sit_down(TakenAssignment taken);
  void continue_on_assignment(TakenAssignment& taken, const std::vector<state::WorkerShare>& before);
  bool continue_step_without_state();
  bool end_here(const TakenAssignment& taken);
  bool has_own_replica() const;
  void stop_as_orphan();

  const Parts parts_;
  std::optional<PromisedState> promise_;
};

}  // namespace elastictrain::session
