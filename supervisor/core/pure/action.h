// Purpose: every action that the state machine may request, and the outbox in which the actions and timers of one
// step gather.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "supervisor/core/pure/records.h"
#include "supervisor/protocol/agent_messages.h"
#include "supervisor/protocol/ids.h"

// Every action that the state machine may request.
//
// The caller performs the actions of one step in order, and all of them before it feeds the next event. Invariants were
// checked before they are returned. What follows from an action arrives as an event, or never: every wait has a timer.
// A Journal action precedes the actions that carry out what it records; one with `sync` is on disk before the next
// action is performed, so that no worker acts on what a later supervisor would not know.

namespace elastictrain::core {

// After its record (HostOffered, HostAgain). Followed by AgentConnected or AgentLost; nothing is sent to the agent
// before the former.
struct LaunchAgent {
  AgentId agent;
  std::string host;
  std::uint32_t slots = 1;
};
// TERM to its workers, then the agent exits; its launcher process is cleaned up. At most once for an agent, connected
// or not. Followed by the exits of its workers and AgentLost; nothing is started there any more.
struct StopAgent {
  AgentId agent;
  std::uint64_t grace_ms = 0;
};
// After Spawn. To an agent that is connected; its slot is free, or holds the worker that it replaces. Followed by the
// worker's messages, WorkerSpawnFailed or WorkerExited.
struct SpawnWorker {
  WorkerId worker;
  AgentId agent;
  std::string host;
  std::uint32_t slot = 0;
  std::uint32_t slots = 1;  // on the host
  // Environment of the worker for programs that expect torch's variables. The ranks of joiners are those that they get
  // if everything goes to plan, but for 0 where no worker has it any more (RunSettings::keeps_first); the session's
  // rank is authoritative.
  std::uint32_t rank = 0;
  std::uint32_t local_rank = 0;
  std::uint32_t world_size = 1;
  std::uint32_t local_world_size = 1;
  std::uint32_t node_rank = 0;
  // The run restarts because no worker holds its state any more: the worker begins with the newest checkpoint that
  // `lineage` leaves valid (complete: all generations of the run that had a first step, oldest first).
  bool from_checkpoint = false;
  std::vector<protocol::Fence> lineage;
  bool warm = false;  // by the process that the agent keeps in this slot
};
// To the worker's agent: its process stays when it has left. Before the Commit of the change that lets it go. Followed
// by WarmReported.
struct KeepWarm {
  AgentId agent;
  WorkerId worker;
};
// The process that was `worker` ends, and its slot is free when the next WarmReported no longer lists it.
struct EndWarm {
  AgentId agent;
  WorkerId worker;
};
// TERM, then KILL after the grace. Again with 0 where the grace is not to be waited for; followed by WorkerExited.
struct StopWorker {
  WorkerId worker;
  std::uint64_t grace_ms = 0;
};
// To the worker's agent; the answer arrives as AgentAnswered, or never.
struct AskAgent {
  protocol::AskAgent asked;
};
// Prepare, Commit and Abort follow their records; the latter two are on disk first. A Commit follows a Prepare with the
// same number that every addressee has answered, and no Cancel or Abort since. A worker whose agent is away gets it
// when the agent is back, if it still counts.
struct SendToWorkers {
  std::vector<WorkerId> workers;
  protocol::WorkerDown message;
};
// Followed by TimerFired, unless it is cancelled first; a number is used once.
struct ArmTimer {
  std::uint64_t timer = 0;  // its expiry arrives as TimerFired with the same number
  Instant when;
};
// Of a timer that is armed.
struct CancelTimer {
  std::uint64_t timer = 0;
};
// One line of the journal.
struct Journal {
  Record record;
  bool sync = false;
};
// Exactly one for each request that names itself (not 0), in the step of the request.
struct Reply {
  std::uint64_t request = 0;
  bool accepted = false;
  std::string text;
};
// A message that the person at the terminal should read now.
struct Tell {
  enum class Level : std::uint8_t { kInfo, kWarning, kError } level = Level::kInfo;
  std::string text;
};
// The last action of a run, after its record is on disk and every agent was told to stop; only replies follow. Exit
// statuses as documented for users.
struct EndRun {
  int exit_status = 0;
  std::string reason;
  bool suspended = false;  // it left with a checkpoint, and goes on when its cluster leases slots to it
};

// A rule of the state is broken, which is an error of this program. The process ends, with status 70 and without a word
// to anybody; the run trains on, and another supervisor takes it over. Nothing but its record is in the same step.
struct EndProcess {
  std::string rule;
};

using Action = std::variant<LaunchAgent, StopAgent, SpawnWorker, StopWorker, SendToWorkers, ArmTimer, CancelTimer,
                            Journal, Reply, Tell, EndRun, EndProcess, AskAgent, KeepWarm, EndWarm>;
using Actions = std::vector<Action>;

// The output of one step of the state machine: actions in order, timers, and whether the desired and the
// actual state must be compared again. Every component writes here; the time of the step is read here.
//
// Ownership and thread: those of the state machine.

enum class TimerKind : std::uint8_t {
  kStart,       // slots for start_workers should be available
  kFixed,       // a program that uses the library should have said so
  kAgentLook,   // the failure detector must look at an agent
  kReady,       // a worker should be ready
  kLeave,       // a worker that was asked to end should be gone
  kPrepare,     // all workers should have answered Prepare
  kRetry,       // Prepare may be tried again
  kGrace,       // a drain should be over
  kEnd,         // all agents should be gone
  kHalt,        // all workers should have answered Abort
  kWaitForMin,  // enough workers should be available again
  kReconnect,   // an agent whose connection broke should be back
  kVanished,    // a worker that its agent does not list should have exited, as a separate event reports
  kRelaunch,    // a lost host may be tried again
  kStacks,      // the stacks of a hung worker should be known
  kCooled,      // a host or slot that failed repeatedly may be used again
  kHold,        // a user's size should count against the policy no longer
  kNotices,     // the other receivers of a TERM should have reported it
};

struct TimerUse {
  TimerKind kind = TimerKind::kStart;
  WorkerId worker;
  AgentId agent;
};

// What each armed timer is for. A number is used once, so a timer that fires after it was cancelled finds no entry and
// changes nothing.
class TimerBook {
 public:
  std::uint64_t add(TimerUse use) {
    uses_.emplace(++last_, use);
    return last_;
  }
  // Returns false when the timer is not armed.
  bool remove(std::uint64_t timer) { return uses_.erase(timer) > 0; }
  std::optional<TimerUse> take(std::uint64_t timer) {
    const auto found = uses_.find(timer);
    if (found == uses_.end()) return std::nullopt;
    const TimerUse use = found->second;
    uses_.erase(found);
    return use;
  }

 private:
  std::uint64_t last_ = 0;
  std::unordered_map<std::uint64_t, TimerUse> uses_;
};

class Outbox {
 public:
  void begin_step(Instant now);
  Instant now() const { return now_; }
  const Actions& actions() const { return actions_; }
  Actions take_actions() { return std::exchange(actions_, {}); }

  template <class T>  // an alternative of Action; compiled in action.cc
  void emit(T action);
  // Before the actions that carry out what it records.
  template <class R>
  void journal(R about, bool sync = false) {
    emit(Journal{std::move(about), sync});
  }
  void send(std::vector<WorkerId> workers, protocol::WorkerDown message);
  void tell(Tell::Level level, std::string text);

  std::uint64_t arm(TimerUse use, Instant when);
  // Sets `timer` to 0.
  void cancel(std::uint64_t& timer);
  // Nothing: it was cancelled.
  std::optional<TimerUse> take_timer(std::uint64_t timer) { return timers_.take(timer); }

  // Something changed that the comparison of the desired state with the actual one must see.
  void look_again() { look_again_ = true; }
  bool must_look() const { return look_again_; }
  void looked() { look_again_ = false; }

 private:
  Instant now_;
  Actions actions_;
  TimerBook timers_;
  bool look_again_ = false;
};

}  // namespace elastictrain::core
