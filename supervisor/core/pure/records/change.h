// Purpose: records about the way from one generation to the next, and about recoveries.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "supervisor/core/pure/records/record_fields.h"
#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/plan_messages.h"

namespace elastictrain::core::record {

struct Prepare {
  Generation generation = 0;
  Generation previous = 0;
  protocol::ChangeKind kind = protocol::ChangeKind::kStart;
  std::string reason;
  std::vector<WorkerId> members;  // by rank
  std::vector<WorkerId> leavers;
  std::vector<std::uint32_t> shares;  // of the members
  std::vector<WorkerId> donors;
  double learning_rate_factor = 1.0;
  std::optional<std::string> topology;
  std::optional<protocol::Synchronization> synchronization;
  std::optional<Generation> fence;
  std::optional<Step> resume_step;
};
ET_RECORD(Prepare, "prepare",
          "The plan of the next generation is sent. `shares` are samples per step of the `members`, which are in order "
          "of ranks. `fence` and `resume_step`: in a recovery.",
          ET_FIELD(generation), ET_FIELD(previous), ET_FIELD(kind), ET_FIELD(reason), ET_FIELD(members),
          ET_FIELD(leavers), ET_FIELD(shares), ET_FIELD(donors), ET_FIELD(learning_rate_factor), ET_FIELD(topology),
          ET_FIELD(synchronization), ET_FIELD(fence), ET_FIELD(resume_step))

struct Prepared {
  WorkerId worker;
  Generation generation = 0;
};
ET_RECORD(Prepared, "prepared", "A worker has built the communicator of the generation.", ET_FIELD(worker),
          ET_FIELD(generation))

struct Cancel {
  Generation generation = 0;
  std::string reason;
};
ET_RECORD(Cancel, "cancel", "The plan is dropped before it was committed; its number is not used again.",
          ET_FIELD(generation), ET_FIELD(reason))

struct GivenUp {
  std::string reason;
};
ET_RECORD(GivenUp, "given_up", "A change failed repeatedly: the run stays as it is.", ET_FIELD(reason))

struct Disagreement {
  WorkerId worker;
  Generation generation = 0;
  std::string reason;
};
ET_RECORD(Disagreement, "disagreement", "Values or calls that must be equal on all ranks are not, says this worker.",
          ET_FIELD(worker), ET_FIELD(generation), ET_FIELD(reason))

struct NewcomerSentAway {
  WorkerId worker;
  std::string reason;
};
ET_RECORD(NewcomerSentAway, "newcomer_sent_away",
          "A new worker could not join, or the ranks disagree since it came: the others repeat the step without it.",
          ET_FIELD(worker), ET_FIELD(reason))

struct GrowRefused {
  std::uint32_t size = 0;
  std::string reason;
};
ET_RECORD(
    GrowRefused, "grow_refused",
    "New workers could not join, twice in a row, or three were killed for want of memory: the run has at most `size` "
    "until a user asks for a size.",
    ET_FIELD(size), ET_FIELD(reason))

struct Commit {
  Generation generation = 0;
  std::uint64_t world_size = 0;
  std::string reason;
};
ET_RECORD(Commit, "commit", "Every worker is prepared: the generation begins at a step boundary.", ET_FIELD(generation),
          ET_FIELD(world_size), ET_FIELD(reason))

struct Active {
  WorkerId worker;
  Generation generation = 0;
  Step first_step = 0;
  std::uint64_t transfer_bytes = 0;
};
ET_RECORD(Active, "active", "A worker trains in the generation.", ET_FIELD(worker), ET_FIELD(generation),
          ET_FIELD(first_step), ET_FIELD(transfer_bytes))

struct GenerationComplete {
  Generation generation = 0;
  protocol::ChangeKind kind = protocol::ChangeKind::kStart;
  Step first_step = 0;
  std::uint64_t world_size = 0;
  std::vector<WorkerId> members;
};
ET_RECORD(GenerationComplete, "generation", "Every member trains in the generation and every leaver has left.",
          ET_FIELD(generation), ET_FIELD(kind), ET_FIELD(first_step), ET_FIELD(world_size), ET_FIELD(members))

struct Idle {
  Generation generation = 0;
  double idle_ms = 0;
};
ET_RECORD(Idle, "idle", "The time in which no worker made progress because of the change to the generation.",
          ET_FIELD(generation), ET_FIELD(idle_ms))

struct Abort {
  Generation fence = 0;
  Generation generation = 0;
  std::string reason;
  std::vector<WorkerId> members;
};
ET_RECORD(Abort, "abort",
          "A recovery begins: everything up to `fence` is void, and every member reports its last step.",
          ET_FIELD(fence), ET_FIELD(generation), ET_FIELD(reason), ET_FIELD(members))

struct Halted {
  WorkerId worker;
  Generation fence = 0;
  Generation generation = 0;
  Step committed_step = 0;
  bool has_state = false;
  bool in_loop = false;
  std::optional<std::string> reason;
};
ET_RECORD(Halted, "halted", "A worker has halted and reports its position. Without a fence: by itself.",
          ET_FIELD(worker), ET_FIELD(fence), ET_FIELD(generation), ET_FIELD(committed_step), ET_FIELD(has_state),
          ET_FIELD(in_loop), ET_FIELD(reason))

struct HaltSettled {
  Generation fence = 0;
  Generation generation = 0;
  Step committed_step = 0;
  std::vector<WorkerId> holders;
  std::optional<std::vector<WorkerId>> members;  // early journals do not name them
};
ET_RECORD(HaltSettled, "halt_settled",
          "All members have halted: `committed_step` counts, and the `holders` hold its state.", ET_FIELD(fence),
          ET_FIELD(generation), ET_FIELD(committed_step), ET_FIELD(holders), ET_FIELD(members))

struct BelowMin {
  std::uint64_t workers = 0;
  std::uint32_t min = 0;
};
ET_RECORD(BelowMin, "below_min", "Too few workers are left to train: they wait for others.", ET_FIELD(workers),
          ET_FIELD(min))

struct StateLost {
  Generation fence = 0;
  Generation generation = 0;
  bool has_checkpoints = false;
  std::string reason;
};
ET_RECORD(StateLost, "state_lost", "No worker is left that holds the state.", ET_FIELD(fence), ET_FIELD(generation),
          ET_FIELD(has_checkpoints), ET_FIELD(reason))

// The whole state, after records were lost. Lists of equal length belong together.
struct RunState {
  Generation generation = 0;
  std::optional<Generation> issued;  // always written: without it the record is damaged
  std::vector<WorkerId> members;
  std::vector<std::uint32_t> shares;
  std::vector<WorkerId> finished;
  double learning_rate_factor = 1.0;
  protocol::Synchronization synchronization = protocol::Synchronization::kGradients;
  std::vector<AgentId> agents;
  std::vector<std::string> hosts;
  std::vector<std::uint32_t> slots;
  std::vector<AgentId> connected;
  std::vector<AgentId> draining;
  std::optional<std::vector<AgentId>> drained;  // of those that drain: their agents have ended, or were lost
  std::optional<std::vector<AgentId>> noticed;  // of those that drain: by their own notice
  std::vector<WorkerId> workers;
  std::vector<AgentId> worker_agents;
  std::vector<std::uint32_t> worker_slots;
  std::optional<Generation> fence;
  std::optional<std::vector<WorkerId>> halted;
  std::optional<Generation> plan;
  std::optional<bool> committed;
  std::optional<std::vector<WorkerId>> plan_members;
  std::optional<std::vector<std::uint32_t>> plan_shares;
  std::optional<double> plan_factor;
  std::optional<protocol::Synchronization> plan_synchronization;
  std::optional<Step> plan_first_step;
  std::vector<Generation> lineage;
  std::vector<Step> first_steps;
  std::uint32_t target = 0;
  std::string target_reason;
  std::optional<std::uint64_t> held_ms;  // a user holds the size, from this record on; 0: until it is given back
  std::optional<std::uint32_t> per_worker;
  std::optional<std::uint32_t> program_batch;
  std::optional<std::uint32_t> program_max_global;
  std::optional<double> target_factor;
  std::optional<double> target_noise_scale;
  std::optional<std::vector<std::uint32_t>> target_parents;
  std::optional<protocol::Topology> target_topology;
  std::optional<protocol::Synchronization> target_synchronization;
  std::uint32_t last_agent = 0;
  std::uint32_t last_worker = 0;
  std::optional<std::vector<std::uint32_t>> only_counts;  // of each host: how many of its slots the run may use; 0: all
  std::optional<std::vector<std::uint32_t>> only_slots;   // the numbers of these, one host after the other
  std::optional<std::uint64_t> lease_version;
  std::optional<std::uint32_t> lease_slots;
  std::optional<std::string> lease_reason;
  std::optional<bool> lease_hold;
  std::optional<bool> lease_moves;
  std::optional<std::uint32_t> refused_size;  // as in "grow_refused"
  std::optional<std::string> refused_reason;
  std::optional<WorkerId> first;   // the newest worker whose environment says rank 0
  std::optional<bool> restarting;  // all state was lost, and nothing has trained since
  std::optional<bool> unsettled;   // taken over in the middle of a change, and not all workers have reported since
};
ET_RECORD(
    RunState, "run_state",
    "The whole state of the run, after records were lost. Lists of equal length belong together: `agents`, `hosts` "
    "and `slots`; `workers`, `worker_agents` and `worker_slots`; `lineage` and `first_steps`. `drained`: of the agents "
    "that are `draining`, those that have ended. `noticed`: those whose host gave notice. `only_slots`: the slots "
    "that a cluster leases to the run, `only_counts` of each host.",
    ET_FIELD(generation), ET_FIELD(issued), ET_FIELD(members), ET_FIELD(shares), ET_FIELD(finished),
    ET_FIELD(learning_rate_factor), ET_FIELD(synchronization), ET_FIELD(agents), ET_FIELD(hosts), ET_FIELD(slots),
    ET_FIELD(connected), ET_FIELD(draining), ET_FIELD(drained).since(4), ET_FIELD(noticed).since(4), ET_FIELD(workers),
    ET_FIELD(worker_agents), ET_FIELD(worker_slots), ET_FIELD(fence), ET_FIELD(halted), ET_FIELD(plan),
    ET_FIELD(committed), ET_FIELD(plan_members), ET_FIELD(plan_shares), ET_FIELD(plan_factor),
    ET_FIELD(plan_synchronization), ET_FIELD(plan_first_step), ET_FIELD(lineage), ET_FIELD(first_steps),
    ET_FIELD(target), ET_FIELD(target_reason), ET_FIELD(per_worker), ET_FIELD(program_batch).since(3),
    ET_FIELD(program_max_global).since(7), ET_FIELD(held_ms).since(3),
    ET_FIELD(target_factor).since(2).was("wished_factor"),
    ET_FIELD(target_noise_scale).since(2).was("wished_noise_scale"),
    ET_FIELD(target_parents).since(2).was("wished_fathers"), ET_FIELD(target_topology).since(2).was("wished_topology"),
    ET_FIELD(target_synchronization).since(2).was("wished_synchronization"), ET_FIELD(last_agent),
    ET_FIELD(last_worker), ET_FIELD(only_counts).since(4), ET_FIELD(only_slots).since(4),
    ET_FIELD(lease_version).since(4), ET_FIELD(lease_slots).since(4), ET_FIELD(lease_reason).since(4),
    ET_FIELD(lease_hold).since(4), ET_FIELD(lease_moves).since(5), ET_FIELD(refused_size).since(6),
    ET_FIELD(refused_reason).since(6), ET_FIELD(first).since(6), ET_FIELD(restarting).since(6),
    ET_FIELD(unsettled).since(2))

using ChangeRecords =
    RecordList<Prepare, Prepared, Cancel, GivenUp, Disagreement, NewcomerSentAway, GrowRefused, Commit, Active,
               GenerationComplete, Idle, Abort, Halted, HaltSettled, BelowMin, StateLost, RunState>;

}  // namespace elastictrain::core::record
