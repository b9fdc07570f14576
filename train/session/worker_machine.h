// Purpose: the worker's side of every change and recovery as a pure state machine: which plans are built, committed or
// void, where the training thread stands, how and when an Abort is answered, and which assignment is taken next. No
// threads, no sockets, no clock: the live session drives it under a lock, the simulation drives it with simulated
// messages.
//
// Ownership: one per worker. Thread: one call at a time. Every call appends to the effects; the owner carries them out
// in order with take_effects().
//
// The core of a recovery, in terms of the messages: after WorkerHalted{fence} this worker takes part in no collective
// of a generation up to the fence, and the committed step that it reported is final. The answer therefore waits while
// the step is open: a step whose first bucket is reduced may still be committed by the program (kReducing, kUpdating).
//
// The order of calls on the training thread:
//   start    wait for take_assignment(false) -> first broadcast or the donors' header -> enter_loop() ->
//   (state_complete()) step     step_opened() -> { enter_collective() -> leave_collective() | collective_failed() }… ->
//   step_committed()
//            -> take_assignment(true) if the lane reported that all workers are ready
//   halted   (enter_collective() false, or collective_failed()) wait for take_assignment(false), then
//            kContinue: the step's buckets again, from enter_collective() on
//            kRejoin:   step_discarded() at the end of the open step, if one is open; the donors' header ->
//                       enter_loop(); a step with an empty batch -> state_complete() before its step_committed().
//                       A worker at resume_step without the complete state may keep its open step instead, since
//                       its batch is empty: enter_loop() at its current step.
//   between  (the program's own collective) enter_collective() -> leave_collective() | collective_failed(), then as
//            halted
//   end      (data used up) enter_collective() -> finished() | collective_failed(), then as halted
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "supervisor/protocol/worker_messages.h"

namespace elastictrain::session {

class WorkerMachine {
 public:
  using Place = protocol::StepPlace;

  // --- Effects
  struct StartBuild {  // in the background; ends with built() or build_failed()
    protocol::GenerationPlan plan;
    std::uint32_t rank = 0;
  };
  struct DropBuild {  // cancel the build, or close what was built
    Generation generation = 0;
  };
  struct AbortAssignment {};  // end the collective in progress on the current assignment, and every later one
  struct Say {
    protocol::WorkerToAgent message;
  };
  struct WakeTraining {};  // the training thread may be waiting for this message
  using Effect = std::variant<StartBuild, DropBuild, AbortAssignment, Say, WakeTraining>;

  explicit WorkerMachine(WorkerId self) : self_(self) {}

  std::vector<Effect> take_effects() { return std::exchange(effects_, {}); }

  // --- From the supervisor
  void hear(const protocol::WorkerDown& message);

  // --- From the builder
  void built(Generation generation);
  void build_failed(Generation generation, const std::string& reason);

  // --- From the training thread
  // This worker takes part from this point on: it is at `step`, with the complete state or with a donor's promise to
  // send it. False: the assignment is void by now; the received data is discarded, and the wait for an assignment
  // starts again.
  bool enter_loop(Step step, bool complete);
  void state_complete();  // the promised state has arrived
  void step_opened();     // next_batch() gave a batch: kOutside -> kComputing
  // Call it before each bucket. False: the assignment is void; the thread halts and waits for its next assignment.
  bool enter_collective();  // -> kReducing
  void leave_collective();  // it succeeded: -> kUpdating, or kOutside between two steps
  // -> kHalted; sends WorkerHalted unless an Abort came first. `disagrees`: as in WorkerHalted.
  void collective_failed(const std::string& reason, bool disagrees = false);
  // `everyone_ready`: the step's lane reported it, and take_assignment(true) follows. It holds even if an Abort has
  // arrived since: other workers have taken that assignment, and all workers at the same step must divide the next one
  // alike.
  void step_committed(Step step, bool everyone_ready);  // -> kOutside
  void step_discarded();                                // -> kOutside, or kHalted while the assignment is void
  void checkpoint_begins();
  void checkpoint_ends();
  // While the device still works for a collective that was ended: says so to who waits for this worker's answer.
  void device_is_held(const std::string& why);
  // The collective at the end of the data, in which all workers take part, succeeded, so no worker needs this one
  // anymore: sends WorkerFinished. A worker that has finished, left or stopped answers no Abort.
  void finished();

  // True when the change that follows the current generation is built and committed: the lane's flag.
  bool swap_ready() const { return ready_plan() != nullptr; }
  // The plan of that change; null if there is none.
  const protocol::GenerationPlan* ready_plan() const;

  // The next action of the training thread when it waits at the start, is halted or is at a boundary.
  enum class AssignmentKind : std::uint8_t {
    kPlanned,    // by agreement of the lane; or the first assignment, or a joiner's
    kContinue,   // recovery: this worker is at the right step; repeat what is open
    kRejoin,     // recovery: receive the state of resume_step, at the boundary where a step has to be given up
    kLeave,      // not a member of what comes next
    kStop,       // the run stops here
    kDismissed,  // not needed anymore
    kDisagreed,  // the ranks disagree and nobody is newer than the others: the program fails
  };
  struct NextAssignment {
    AssignmentKind kind = AssignmentKind::kPlanned;
    protocol::GenerationPlan plan;
    std::optional<std::uint32_t> rank;
    // An Abort made this agreed assignment void before it was taken: it only determines how the next step is divided.
    // No communicator, no WorkerActive; a leaver, or a run that was to stop, continues with the recovery.
    bool is_void = false;
    bool writes_checkpoint = false;  // kStop in a recovery
    std::string disagreement = {};   // kDisagreed: what it is about
  };
  // `at_boundary`: the lane reported that all workers are ready. The assignment that is returned becomes the current
  // one.
  std::optional<NextAssignment> take_assignment(bool at_boundary);

  // At the start: take_assignment(false) has an answer.
  bool start_is_decided() const;

  Generation generation() const { return generation_; }
  Generation fence() const { return fence_; }
  Place place() const { return place_; }
  bool assignment_is_void() const { return generation_ != 0 && (generation_ <= fence_ || generation_ == broken_); }
  Step committed_step() const { return committed_step_; }
  bool has_state() const { return has_state_; }
  bool has_gradients() const { return has_gradients_; }  // as in WorkerHalted
  bool in_loop() const { return in_loop_; }
  bool dismissed() const { return dismissed_; }
  bool is_over() const { return over_; }

 private:
  struct Upcoming {
    protocol::GenerationPlan plan;
    std::optional<std::uint32_t> rank;
    bool built = false;
    bool committed = false;
    bool dead = false;  // by an Abort; kept while the lane may have agreed on it

    bool ready() const { return built && committed; }
  };
  using Plans = std::vector<Upcoming>;  // ascending generations

  void prepare(const protocol::GenerationPlan& plan);
  void cancel(Generation generation);
  void abort(Generation fence);
  void raise_fence(Generation fence);
  bool lane_may_agree_on(const Upcoming& upcoming) const;
  void drop_uncommitted_plans();
  void drop_dead_plans();
  void drop_all_plans();
  bool settled() const;
  static bool is_place(const Upcoming& upcoming);
  void answer_if_settled();
  void say_halted(Generation fence, const std::string& reason, bool disagrees = false);
  Plans::iterator find(Generation generation);
  NextAssignment take(Plans::iterator upcoming, AssignmentKind kind);
  std::optional<NextAssignment> take_agreed();
  std::optional<NextAssignment> take_first();
  std::optional<NextAssignment> take_recovery();
  void wake() { effects_.emplace_back(WakeTraining{}); }
  void say(protocol::WorkerToAgent message) { effects_.emplace_back(Say{std::move(message)}); }

  WorkerId self_;
  std::vector<Effect> effects_;
  Place place_ = Place::kStarting;
  Generation generation_ = 0;
  Generation fence_ = 0;     // highest Abort received
  Generation answered_ = 0;  // highest one answered
  Generation held_ = 0;      // highest one that the device has kept from an answer
  Generation broken_ = 0;    // the generation whose data plane failed here before any Abort
  Generation agreed_ = 0;    // the lane reported that all are ready for it; not taken yet
  Step committed_step_ = 0;
  bool step_is_open_ = false;
  bool has_state_ = false;
  bool has_gradients_ = true;
  bool in_loop_ = false;
  bool dismissed_ = false;
  std::optional<std::string> disagreement_;  // that nobody newer is to blame for
  bool over_ = false;
  Plans upcoming_;
};

}  // namespace elastictrain::session
