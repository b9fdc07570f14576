// Purpose: every event that can happen to a run, as the state machine sees it. The edge (or a simulation) translates
// sockets, processes and timers into these; nothing else changes the state.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "supervisor/protocol/agent_messages.h"
#include "supervisor/protocol/ids.h"

namespace elastictrain::core {

struct HostSlots {
  std::string host;
  std::uint32_t slots = 1;               // that the host has: 0 to slots-1
  std::vector<std::uint32_t> only = {};  // the numbers of those that this run may use, ascending; empty: all
  bool operator==(const HostSlots&) const = default;
  std::uint32_t usable() const { return only.empty() ? slots : static_cast<std::uint32_t>(only.size()); }
};

// The complete list of hosts that the host source offers now; a host of the last list that is missing here has
// vanished.
struct HostsOffered {
  std::vector<HostSlots> hosts;
};

// In a run of a cluster, in place of HostsOffered: all slots that it may use from now on. A version that is not newer
// than the last one changes nothing.
struct LeaseGiven {
  std::uint64_t version = 0;
  std::vector<HostSlots> hosts;
  std::string reason;
  bool hold = false;  // stand still there: the workers keep their state in memory and use no CPU
  // Slots that it no longer names are exchanged for others: their workers train until successors take their places.
  bool moves = false;
};

// The newest lease. A run whose supervisor was replaced keeps it until the cluster gives another.
struct LeaseState {
  std::uint64_t version = 0;
  std::uint32_t slots = 0;  // 0: the run waits
  std::string reason;
  bool hold = false;
  bool moves = false;
  bool operator==(const LeaseState&) const = default;
};

// Also sent when a lost connection is restored; `workers` are those of its workers that still run
// (AgentHello::workers). Their latest messages, and the exits that the agent has seen, follow as separate events.
struct AgentConnected {
  AgentId agent;
  std::vector<WorkerId> workers;
  std::vector<protocol::WarmProcess> warm = {};
};
// All of an agent's warm processes, whenever they change: those that wait to be another worker.
struct WarmReported {
  AgentId agent;
  std::vector<protocol::WarmProcess> processes;
};
// How certain it is that the agent's processes are gone. kConnection: only the connection broke; agent and workers may
// still run and reconnect. kProcess: the agent's process exited, and its guardian ends the workers. kNeverCame: the
// agent could not be started. kNotYet: likewise, but a later attempt may succeed (a host that boots, a full sshd).
enum class LossEvidence : std::uint8_t { kNeverCame, kConnection, kProcess, kNotYet };
// `reason` is the launcher's own message.
struct AgentLost {
  AgentId agent;
  std::string reason;
  LossEvidence evidence = LossEvidence::kConnection;
};
// The host is about to go away; its workers leave as in a drain, and no failure budget is used.
struct HostNoticed {
  AgentId agent;
  std::string reason;
};
struct AgentAnswered {
  AgentId agent;
  protocol::AgentAnswer answer;
};

// How the same workers train together, from the next boundary on. A field that is not set keeps its value.
struct UpdatePlan {
  std::uint64_t request = 0;
  // Relative speeds in any common unit; a worker that is not in the list has speed 1. Empty: equal shares.
  std::optional<std::map<WorkerId, double>> speeds;
  std::optional<std::uint32_t> per_worker;  // samples: BatchSettings::per_worker
  // What the first worker's words made of the batch, its own or the user's times its batches per step: per_worker, and
  // what the learning rate was chosen for. A per_worker counts before it.
  std::optional<std::uint32_t> program_batch;
  std::optional<std::uint32_t> program_max_global;  // where that batch is the one of all workers
  std::string reason;
  std::optional<double> learning_rate_factor;  // replaces the rule's; above 0
  std::optional<double> noise_scale;           // in samples: LearningRateSettings::noise_scale
  std::optional<protocol::Topology> topology;
  std::optional<std::vector<std::uint32_t>> parents;  // an explicit tree (protocol/names.h) instead of a topology
  std::optional<protocol::Synchronization> synchronization;
};

// A user's size counts against policies until it is given back, or for a time.
struct SizeHold {
  Millis duration{0};  // 0: until it is given back
};

// New workers could not join, twice in a row: the run has at most so many.
struct GrowRefusal {
  std::uint32_t size = 0;
  std::string reason;
};

// A run as reconstructed from its journal, for a supervisor that takes it over: the first event of a fresh state
// machine. Agents that still run connect within `RunSettings::resume_timeout`, and their workers repeat their latest
// messages.
struct Resumed {
  struct AgentPlace {
    AgentId agent;
    std::string host;
    std::uint32_t slots = 0;
    bool drain = false;
    std::vector<std::uint32_t> only = {};  // HostSlots::only
    bool drained = false;                  // it drains, and its agent has ended or was lost: nothing connects
    bool noticed = false;                  // it drains by its own notice
  };
  struct WorkerPlace {
    WorkerId worker;
    AgentId agent;
    std::uint32_t slot = 0;
    bool left = false;  // in order, for good; its last messages may be missing
  };
  std::vector<AgentPlace> agents;
  std::vector<WorkerPlace> workers;  // all that were started and whose exit is not known
  Generation generation = 0;
  Generation issued = 0;  // the highest number in use, including fences
  std::vector<WorkerId> members;
  std::vector<std::uint32_t> shares;
  double learning_rate_factor = 1.0;
  protocol::Synchronization synchronization = protocol::Synchronization::kGradients;
  std::vector<protocol::Fence> lineage;
  std::uint32_t target = 0;
  std::string target_reason;
  UpdatePlan plan_update;  // requested since the start; without speeds
  // The journal ends between the first and the last step of a change or a recovery: every worker must report its
  // position.
  bool unsettled = false;
  std::vector<WorkerId> unsettled_members;  // of a generation that was committed but not complete
  std::vector<WorkerId> finished;           // their program reached its end; their processes may have exited
  std::uint32_t plain_restarts = 0;
  std::uint32_t last_agent = 0;  // highest ids ever used
  std::uint64_t last_worker = 0;
  std::optional<SizeHold> hold;
  std::optional<GrowRefusal> refused;
  std::optional<WorkerId> first;  // the newest worker whose environment says rank 0
  bool restarting = false;        // all state was lost, and nothing has trained since
  LeaseState lease;
  std::vector<std::pair<WorkerId, protocol::WorkerAudit>> audits;  // in audit mode, what the ledger held
};

struct WorkerSpawnFailed {
  WorkerId worker;
  std::string reason;
  std::int32_t program_status = 0;  // 126 or 127: the fault of the program, which fails there again
};
struct WorkerExited {
  WorkerId worker;
  std::int32_t exit_code = 0;
  std::int32_t signal = 0;
  std::vector<std::string> last_error_lines;
  bool out_of_memory = false;  // as in the agent's message
  std::uint64_t memory_limit_bytes = 0;
  std::uint64_t peak_bytes = 0;
};
struct WorkerMessage {
  WorkerId worker;
  protocol::WorkerUp message;
};
struct AgentReported {
  AgentId agent;
  protocol::AgentReport report;
};

// Requests of a user or of a policy. Each gets exactly one Reply action with the same request id.
struct Resize {
  std::uint64_t request = 0;
  std::uint32_t target = 0;  // 0: a policy decides again
  std::string reason;
  bool by_policy = false;  // changes nothing while a user holds the size
  Millis hold_for{0};      // of a user's; 0: until it is given back
};
struct ReplaceWorker {
  std::uint64_t request = 0;
  std::uint32_t rank = 0;
  bool other_host = false;  // its own host is at fault
};
struct ReplaceHost {  // moves its workers to other hosts (or restarts them on this one when no other slot is free)
  std::uint64_t request = 0;
  std::string host;
};
struct DrainHost {
  std::uint64_t request = 0;
  std::string host;
};
// Workers may be started there again.
struct UndrainHost {
  std::uint64_t request = 0;
  std::string host;
};
// The run leaves at the next step boundary. Preempted: SIGTERM or a batch system's notice. Suspended: the cluster takes
// all of its slots. Cancelled: by the cluster, for good. Otherwise the user requested it.
enum class StopCause : std::uint8_t { kUser, kInterrupt, kPreempted, kTimeLimit, kSuspended, kCancelled };
struct Stop {
  std::uint64_t request = 0;  // 0: no client waits for a reply
  StopCause cause = StopCause::kUser;
};
// TERM to the workers at once, KILL after the grace. By a second Ctrl-C, or by a user with `stop --now`. A run that was
// told to stop before keeps that cause.
struct StopNow {
  StopCause cause = StopCause::kInterrupt;
};

struct TimerFired {
  std::uint64_t timer = 0;
};

using Event = std::variant<HostsOffered, AgentConnected, AgentLost, WorkerSpawnFailed, WorkerExited, WorkerMessage,
                           AgentReported, Resize, ReplaceWorker, ReplaceHost, DrainHost, UndrainHost, Stop, StopNow,
                           TimerFired, HostNoticed, AgentAnswered, Resumed, UpdatePlan, LeaseGiven, WarmReported>;

}  // namespace elastictrain::core
