// Purpose: the worker's side of every change and recovery as a pure state machine: which plans are built, committed or
// dead, where the training thread stands, what an Abort is answered and when, and which seat is taken next. No threads,
// no sockets, no clock: the live session drives it under a lock, the simulation drives it with simulated messages.
//
// Ownership: one per worker. Thread: one call at a time. Every call appends to the effects; the owner carries them out
// in order with take_effects().
//
// The heart of a recovery, in the words of the messages: after WorkerHalted{fence} this worker takes part in no
// collective of a generation up to the fence, and the committed step it named stands. Hence the answer waits while it
// is not settled: a step whose first bucket is reduced may still be committed by the program (kReducing, kUpdating).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "supervisor/protocol/message.h"

namespace elastictrain::session {

class WorkerMachine {
 public:
  using Place = protocol::StepPlace;

  // --- What is to be done
  struct StartBuild {  // in the background; ends with built() or build_failed()
    protocol::GenerationPlan plan;
    std::uint32_t rank = 0;
  };
  struct DropBuild {  // cancel the build, or close what was built
    Generation generation = 0;
  };
  struct AbortSeat {};  // end the collective in progress on the current seat, and every later one
  struct Say {
    protocol::WorkerUp message;
  };
  struct WakeTraining {};  // the training thread may be waiting for what just came
  using Effect = std::variant<StartBuild, DropBuild, AbortSeat, Say, WakeTraining>;

  explicit WorkerMachine(WorkerId self) : self_(self) {}

  std::vector<Effect> take_effects() { return std::exchange(effects_, {}); }

  // --- From the supervisor
  void hear(const protocol::WorkerDown& message);

  // --- From the builder
  void built(Generation generation);
  void build_failed(Generation generation, const std::string& reason);

  // --- From the training thread
  void step_opened();  // next_batch() gave a batch: kOutside -> kComputing
  // Before each bucket. False: the seat is void; the thread halts and waits for next_seat().
  bool enter_collective();                            // -> kReducing
  void leave_collective();                            // it succeeded: -> kUpdating
  void collective_failed(const std::string& reason);  // -> kHalted; says WorkerHalted when nobody had asked
  void step_committed(Step step);                     // -> kOutside
  void checkpoint_begins();
  void checkpoint_ends();
  void state_complete();                     // a joiner holds the whole state
  void set_state(Step step, bool complete);  // at the first generation, or with a donor's header

  // True when the change that follows the current generation is built and committed: the lane's flag.
  bool swap_ready() const;

  // What the training thread should do now, where it waits at the start, is halted or stands at a boundary.
  enum class SeatKind : std::uint8_t {
    kPlanned,   // by agreement of the lane; or the first seat, or a joiner's
    kContinue,  // recovery: this worker stands at the step that counts; repeat what is open
    kRejoin,    // recovery: give up the open step and receive the state at the next boundary
    kLeave,     // not a member of what comes next
    kStop,      // the run stops here
    kDismissed,
  };
  struct NextSeat {
    SeatKind kind = SeatKind::kPlanned;
    protocol::GenerationPlan plan;
    std::optional<std::uint32_t> rank;
    bool writes_checkpoint = false;  // kStop in a recovery
  };
  // `at_boundary`: the lane said that everyone is ready. Taking it makes it the current seat.
  std::optional<NextSeat> take_seat(bool at_boundary);

  Generation generation() const { return generation_; }
  Place place() const { return place_; }
  bool seat_is_void() const { return generation_ != 0 && generation_ <= fence_; }
  Step committed_step() const { return committed_step_; }
  bool has_state() const { return has_state_; }

 private:
  struct Upcoming {
    protocol::GenerationPlan plan;
    std::optional<std::uint32_t> rank;
    bool built = false;
    bool committed = false;
  };

  WorkerId self_;
  std::vector<Effect> effects_;
  Place place_ = Place::kStarting;
  Generation generation_ = 0;
  Generation fence_ = 0;     // highest Abort heard
  Generation answered_ = 0;  // highest one answered
  Step committed_step_ = 0;
  bool has_state_ = false;
  bool in_loop_ = false;
  bool dismissed_ = false;
  std::vector<Upcoming> upcoming_;  // ascending generations
};

}  // namespace elastictrain::session
