// Purpose: a snapshot of the run for `status`, progress lines and policies. Plain data, built on demand.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heuristics/batch_plan.h"
#include "supervisor/core/pure/event.h"
#include "supervisor/protocol/agent_messages.h"
#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/worker_messages.h"

namespace elastictrain::core {

enum class RunPhase : std::uint8_t { kStarting, kRunning, kChanging, kStopping, kEnded };
enum class WorkerPhase : std::uint8_t { kStarting, kSpare, kJoining, kMember, kLeaving, kGone };
// kSuspect: silent. kReconnecting: its connection broke; the agent may still run. kDraining: its workers leave.
// kDrained, kLeft: they have left, by a drain or by the host's own notice. kCooling: it failed repeatedly, and nothing
// is started there for a while. kLost: it was given up, and is tried again.
enum class AgentPhase : std::uint8_t {
  kLaunching,
  kUp,
  kSuspect,
  kReconnecting,
  kDraining,
  kDrained,
  kLeft,
  kCooling,
  kLost
};

struct WorkerView {
  WorkerId worker;
  WorkerPhase phase = WorkerPhase::kStarting;
  std::optional<std::uint32_t> rank;
  AgentId agent;
  std::string host;
  std::uint32_t slot = 0;
  std::uint32_t share = 0;
  std::uint64_t quiet_ms = 0;  // as its agent last reported
  protocol::WorkerHeartbeat heartbeat;
};

struct AgentView {
  AgentId agent;
  std::string host;
  std::uint32_t slots = 0;
  AgentPhase phase = AgentPhase::kLaunching;
  std::uint32_t workers = 0;
  Instant last_seen;
  bool gone = false;                             // no agent is there
  std::vector<protocol::WarmProcess> warm = {};  // that wait in their slots to be other workers
  std::string problem = {};                      // why it is lost

  bool leaving() const {
    return phase == AgentPhase::kDraining || phase == AgentPhase::kDrained || phase == AgentPhase::kLeft;
  }
};

// Losses of one class: crash, hang, preemption, infrastructure.
struct FailureView {
  std::string name;
  std::uint64_t total = 0;          // since the start of this supervisor
  std::uint32_t within_window = 0;  // these count against the limit
  std::uint32_t limit = 0;          // kUnlimited: no limit
};

// A host that failed repeatedly, on which nothing is started for a while.
struct CooledHostView {
  std::string host;
  std::uint32_t failures = 0;
  std::uint64_t left_ms = 0;
  std::string reason;
};

struct RunView {
  std::string run_name;
  RunPhase phase = RunPhase::kStarting;
  Generation generation = 0;
  std::uint32_t world_size = 0;
  std::uint32_t target_size = 0;
  std::uint32_t asked_size = 0;     // the same before a cluster's lease limits it
  std::optional<LeaseState> lease;  // of a run of a cluster
  bool stands = false;              // its workers have halted because the lease says so
  bool gathering = false;           // a change waits for workers that start; a newer request may still replace it
  std::uint64_t global_batch = 0;
  heuristics::BatchRule batch;    // that the next plan follows
  std::uint64_t base_batch = 0;   // that the learning rate was chosen for
  std::uint32_t new_members = 0;  // that have committed no step yet, as far as it is known
  std::string grow_refused;       // why the run stays below its target; empty: it was not refused
  std::string unmet;              // which part of what is requested cannot be reached now, and why
  std::string start_failure;      // the newest one of a new worker, while slots stay unused for it
  bool held = false;              // `target_size` is a user's, and policies do not change it
  std::optional<std::uint64_t> held_left_ms;
  double learning_rate_factor = 1.0;
  protocol::Topology topology = protocol::Topology::kAuto;
  std::vector<std::uint32_t> parents;  // the explicit tree that replaces it; empty: none
  protocol::Synchronization synchronization = protocol::Synchronization::kGradients;
  std::uint64_t epoch_samples = 0;  // of the program's data; 0: not known
  std::uint64_t epochs = 0;         // 0: not known
  std::uint64_t max_steps = 0;      // 0: no limit
  std::uint64_t start_ms = 0;       // from the start of the newest worker until it was ready; 0: not known
  std::string size_reason;          // why the run has this size
  std::string last_change;          // what happened last
  std::vector<WorkerView> workers;  // members by rank first, then the others by id
  std::vector<AgentView> agents;
  std::vector<FailureView> failures;  // classes without a loss are omitted
  std::vector<CooledHostView> cooled_hosts;
};

}  // namespace elastictrain::core
