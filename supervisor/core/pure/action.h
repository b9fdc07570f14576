// Purpose: every action that the state machine may request. The caller performs the actions of one step in order; a
// Journal action precedes the actions that carry out what it records, and one with `sync` must be on disk first.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "supervisor/core/pure/records.h"
#include "supervisor/protocol/agent_messages.h"
#include "supervisor/protocol/ids.h"

namespace elastictrain::core {

struct LaunchAgent {
  AgentId agent;
  std::string host;
  std::uint32_t slots = 1;
};
// TERM to its workers, then the agent exits; its launcher process is cleaned up.
struct StopAgent {
  AgentId agent;
  std::uint64_t grace_ms = 0;
};
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
// To the worker's agent: its process stays when it has left.
struct KeepWarm {
  AgentId agent;
  WorkerId worker;
};
// The process that was `worker` ends.
struct EndWarm {
  AgentId agent;
  WorkerId worker;
};
// TERM, then KILL after the grace.
struct StopWorker {
  WorkerId worker;
  std::uint64_t grace_ms = 0;
};
// To the worker's agent; the answer arrives as AgentAnswered, or never.
struct AskAgent {
  protocol::AskAgent asked;
};
struct SendToWorkers {
  std::vector<WorkerId> workers;
  protocol::WorkerDown message;
};
struct ArmTimer {
  std::uint64_t timer = 0;  // its expiry arrives as TimerFired with the same number
  Instant when;
};
struct CancelTimer {
  std::uint64_t timer = 0;
};
// One line of the journal. Its special members are in outbox.cc: compiled once instead of in every file that emits an
// action, because those of a variant of all records are large.
struct Journal {
  explicit Journal(Record of, bool with_sync = false);
  template <class R>
  Journal(std::in_place_type_t<R> type, R&& about, bool with_sync) : record(type, std::move(about)), sync(with_sync) {}
  Journal(Journal&& other) noexcept;
  ~Journal();

  Record record;
  bool sync = false;
};
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
// The last action of a run. Exit statuses as documented for users.
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

}  // namespace elastictrain::core
