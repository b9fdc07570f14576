// Purpose: everything that can happen to a run, as the state machine sees it. The edge (or a simulation) turns sockets,
// processes and timers into these; nothing else changes the state.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/message.h"

namespace elastictrain::core {

struct HostSlots {
  std::string host;
  std::uint32_t slots = 1;
  bool operator==(const HostSlots&) const = default;
};

// The complete list of hosts that the host source offers now; what is missing compared to the last one has vanished.
struct HostsOffered {
  std::vector<HostSlots> hosts;
};

// Also when a lost connection is back; `workers` are those of its workers that live (AgentHello::workers). What they
// have said last, and the exits that the agent has seen, follow as events of their own.
struct AgentConnected {
  AgentId agent;
  std::vector<WorkerId> workers;
};
// How sure it is that the agent's processes are gone. kConnection: only the connection broke; agent and workers may
// live and come back. kProcess: the agent's process ended, and its guardian with it ends the workers. kNeverCame: it
// could not be started.
enum class LossEvidence : std::uint8_t { kNeverCame, kConnection, kProcess };
// `reason` is the launcher's own message.
struct AgentLost {
  AgentId agent;
  std::string reason;
  LossEvidence evidence = LossEvidence::kConnection;
};
// The host is about to go away; its workers leave as in a drain, and no budget is used.
struct HostNoticed {
  AgentId agent;
  std::string reason;
};
struct StacksCaptured {
  WorkerId worker;
  std::vector<std::string> lines;
};
struct CollectivesTold {
  AgentId agent;
  std::vector<std::string> lines;
};

// How the same workers train together, from the next boundary on. What is not set stays as it is.
struct Reshare {
  std::uint64_t request = 0;
  // In proportion to these, in any common unit; who is not in the list has speed 1. Empty: equal shares.
  std::optional<std::map<WorkerId, double>> speeds;
  std::optional<std::uint32_t> per_worker;  // samples: BatchSettings::per_worker
  std::string reason;
  std::optional<double> learning_rate_factor;  // in place of the rule's; above 0
  std::optional<double> noise_scale;           // in samples: LearningRateSettings::noise_scale
  std::optional<protocol::Topology> topology;
  std::optional<std::vector<std::uint32_t>> fathers;  // an explicit tree (topology_choice.h) in place of a topology
  std::optional<protocol::Synchronization> synchronization;
};

// A run as its journal tells it, for a supervisor that takes it over: the first event of a fresh state machine. Agents
// that live connect within `RunSettings::resume_timeout`, and their workers repeat what they said last.
struct Resumed {
  struct AgentPlace {
    AgentId agent;
    std::string host;
    std::uint32_t slots = 0;
    bool drain = false;
  };
  struct WorkerPlace {
    WorkerId worker;
    AgentId agent;
    std::uint32_t slot = 0;
  };
  std::vector<AgentPlace> agents;
  std::vector<WorkerPlace> workers;  // all that were started and not seen to end
  Generation generation = 0;
  Generation issued = 0;  // the highest number used, also by a fence
  std::vector<WorkerId> members;
  std::vector<std::uint32_t> shares;
  double learning_rate_factor = 1.0;
  protocol::Synchronization synchronization = protocol::Synchronization::kGradients;
  std::vector<protocol::Fence> lineage;
  std::uint32_t target = 0;
  std::string target_reason;
  Reshare reshared;  // what was asked for since the start; without speeds
  // The journal ends between the first step of a change or a recovery and its last: where everybody is must be asked.
  bool unsettled = false;
  std::vector<WorkerId> unsettled_members;  // of a generation that was committed but not complete
  std::vector<WorkerId> finished;           // their program reached its end; their processes may be gone
  std::uint32_t last_agent = 0;             // highest ids ever used
  std::uint64_t last_worker = 0;
  std::vector<std::pair<WorkerId, protocol::WorkerAudit>> audits;  // in audit mode, what the ledger knew
};

struct WorkerSpawnFailed {
  WorkerId worker;
  std::string reason;
};
struct WorkerExited {
  WorkerId worker;
  std::int32_t exit_code = 0;
  std::int32_t signal = 0;
  std::vector<std::string> last_error_lines;
};
struct WorkerSaid {
  WorkerId worker;
  protocol::WorkerUp message;
};
struct AgentReported {
  AgentId agent;
  protocol::AgentReport report;
};

// Requests of a user (or later of a policy). Each is answered by exactly one Reply action with the same request id.
struct Resize {
  std::uint64_t request = 0;
  std::uint32_t target = 0;
  std::string reason;
};
struct ReplaceWorker {
  std::uint64_t request = 0;
  std::uint32_t rank = 0;
  bool other_host = false;  // its own is at fault
};
struct ReplaceHost {  // moves its workers elsewhere (or restarts them there when no other slot is free)
  std::uint64_t request = 0;
  std::string host;
};
struct DrainHost {
  std::uint64_t request = 0;
  std::string host;
};
// The run leaves at the next step boundary. Preempted: SIGTERM, a batch system's notice; else the user asked.
enum class StopCause : std::uint8_t { kUser, kInterrupt, kPreempted, kTimeLimit };
struct Stop {
  std::uint64_t request = 0;  // 0: nobody waits for a reply
  StopCause cause = StopCause::kUser;
};
// Second Ctrl-C: TERM to the workers at once, KILL after the grace.
struct StopNow {};

struct TimerFired {
  std::uint64_t timer = 0;
};

using Event = std::variant<HostsOffered, AgentConnected, AgentLost, WorkerSpawnFailed, WorkerExited, WorkerSaid,
                           AgentReported, Resize, ReplaceWorker, ReplaceHost, DrainHost, Stop, StopNow, TimerFired,
                           HostNoticed, StacksCaptured, Resumed, Reshare, CollectivesTold>;

}  // namespace elastictrain::core
