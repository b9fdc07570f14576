// Purpose: the rules of the state machine: its phases, the events that each handles, the phases that may follow, and
// the conditions that must hold after every step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "supervisor/core/pure/action.h"
#include "supervisor/core/pure/event.h"
#include "supervisor/core/pure/roster.h"
#include "supervisor/core/pure/run_view.h"

// The phases of a run, which events are handled in which of them, and which may follow which, as two tables
// that a reader can check line by line and a test checks for completeness.

namespace elastictrain::core {

enum class Handling : std::uint8_t {
  kHandle,  // the state machine acts on it
  kRefuse,  // a request: answered with a refusal, nothing else happens
  kIgnore,  // has no effect any more
};

enum class Phase : std::uint8_t {
  kStarting,    // no generation trains yet, or none again after all state was lost
  kResuming,    // taken over, and not all agents are back
  kTraining,    // nothing is in flight
  kChanging,    // a planned change is in flight
  kHalted,      // after a loss: every worker reports its last step
  kBelowMin,    // too few workers are left: they wait for others
  kRecovering,  // the generation that follows a loss is being built
  kEnding,
  kEnded,
};
inline constexpr std::size_t kPhases = 9;

// Name of the event's class, as the journal and the tables use it.
const char* name_of(const Event& event);
const char* name_of(Phase phase);
// As users see them.
const char* name_of(RunPhase phase);
const char* name_of(AgentPhase phase);

Handling handling(Phase phase, const Event& event);

// Returns whether a step may leave the run in `to` when it found it in `from`.
bool may_follow(Phase from, Phase to);

// The conditions that must hold after every step of the state machine, checked from outside: from the actions
// that it requested and the roster that it keeps. A violation is a bug; the caller drops the actions and ends its
// process instead of acting on a wrong state.
//
// Ownership and thread: those of the state machine. Cost: proportional to the actions, plus the roster if `whole`.

struct RunFacts {
  const Roster& roster;
  const std::vector<WorkerId>& members;  // of the last complete generation
  Generation generation = 0;             // its number
  Phase before = Phase::kStarting;
  Phase after = Phase::kStarting;
  bool whole = false;  // check the roster too
};

class Invariants {
 public:
  // Returns the violated condition, or nothing.
  std::optional<std::string> check(const Event& event, const Actions& actions, const RunFacts& facts);

  // The run is taken over: the numbers already used and committed.
  void resume(Generation committed, Generation issued, WorkerId last_worker);

 private:
  using Broken = std::optional<std::string>;

  Broken check_replies(const Event& event, const Actions& actions) const;
  Broken check_order(const Actions& actions);
  Broken check_message(const SendToWorkers& send, const RunFacts& facts);
  Broken check_commit(Generation generation);
  Broken check_abort(const protocol::Abort& abort, const std::vector<WorkerId>& addressees);
  Broken check_plan(const protocol::GenerationPlan& plan, const RunFacts& facts);
  Broken check_recovery(const protocol::GenerationPlan& plan, const RunFacts& facts) const;
  bool holds_state(WorkerId worker, Step step) const;
  Broken check_members(const protocol::GenerationPlan& plan, const RunFacts& facts) const;
  Broken check_slots(const RunFacts& facts) const;

  bool ended_ = false;
  WorkerId last_worker_;
  Generation issued_ = 0;       // number of the last plan or fence
  Generation open_ = 0;         // plan that is neither committed nor cancelled
  bool open_recovers_ = false;  // ... and it follows the fence, or starts the run (again)
  Generation committed_ = 0;    // last one for which Commit was sent
  Generation fence_ = 0;        // last one for which Abort was sent
  bool fenced_ = false;         // nothing that follows from it has been committed yet
  std::set<WorkerId> aborted_;  // workers to which Abort was sent
  std::map<WorkerId, protocol::WorkerHalted> answers_;
};

// The request that an event carries, 0 if no client waits for an answer.
std::uint64_t request_of(const Event& event);

}  // namespace elastictrain::core
