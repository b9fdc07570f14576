#include "supervisor/core/state_record.h"

#include <optional>
#include <utility>
#include <vector>

#include "supervisor/core/change.h"
#include "supervisor/core/desired_state.h"
#include "supervisor/core/plan_maker.h"
#include "supervisor/core/recovery.h"
#include "supervisor/core/run_end.h"
#include "supervisor/core/startup.h"
#include "supervisor/core/training.h"

namespace elastictrain::core {
namespace {

void add(std::optional<std::vector<AgentId>>& list, AgentId id) {
  if (!list) list.emplace();
  list->push_back(id);
}

}  // namespace

StateRecord::StateRecord(const Roster& roster, const Training& training, const Change& change, const Recovery& recovery,
                         const DesiredState& desired, const TakeoverState& takeover, const RunEnd& end)
    : roster_(roster),
      training_(training),
      change_(change),
      recovery_(recovery),
      desired_(desired),
      takeover_(takeover),
      end_(end) {}

Journal StateRecord::make(Instant now) const {
  record::RunState state;
  state.generation = training_.generation;
  state.issued = training_.issued;
  record_members(state);
  record_hosts(state);
  record_workers(state);
  record_change(state);
  for (const protocol::Fence& fence : training_.lineage) {
    state.lineage.push_back(fence.generation);
    state.first_steps.push_back(fence.first_step);
  }
  state.target = desired_.target;
  state.target_reason = desired_.target_reason;
  if (desired_.refused) {
    state.refused_size = desired_.refused->size;
    state.refused_reason = desired_.refused->reason;
  }
  for (const auto& [id, worker] : roster_.workers()) {
    if (worker.is_first) state.first = id;
  }
  if (training_.restarting) state.restarting = true;
  if (desired_.held) state.held_ms = desired_.hold_left_ms(now).value_or(0);
  write_update(desired_.update, state);
  state.last_agent = roster_.last_agent();
  state.last_worker = roster_.last_worker();
  if (takeover_.unsettled) state.unsettled = true;
  return Journal(std::in_place_type<record::RunState>, std::move(state), true);
}

void StateRecord::record_members(record::RunState& state) const {
  state.members = training_.members;
  for (WorkerId id : training_.members) {
    const Worker* worker = roster_.worker(id);
    state.shares.push_back(worker == nullptr ? 0 : worker->share);
  }
  state.finished.assign(end_.finished.begin(), end_.finished.end());
  state.learning_rate_factor = training_.learning_rate_factor;
  state.synchronization = training_.synchronization;
}

void StateRecord::record_hosts(record::RunState& state) const {
  for (const auto& [id, agent] : roster_.agents()) {
    const bool drained = agent.drained() && desired_.lease.version == 0;
    if (!drained && (agent.link == Link::kDown || agent.stopping)) continue;
    state.agents.push_back(id);
    state.hosts.push_back(agent.host);
    state.slots.push_back(agent.slots);
    if (agent.link == Link::kUp) state.connected.push_back(id);
    const bool left_out = desired_.lease.version > 0 && !agent.offered;
    if (agent.drain || left_out) state.draining.push_back(id);
    if (drained) add(state.drained, id);
    if (agent.noticed) add(state.noticed, id);
  }
  record_lease(state);
}

void StateRecord::record_lease(record::RunState& state) const {
  if (desired_.lease.version == 0) return;
  state.lease_version = desired_.lease.version;
  state.lease_slots = desired_.lease.slots;
  state.lease_reason = desired_.lease.reason;
  if (desired_.lease.hold) state.lease_hold = true;
  if (desired_.lease.moves) state.lease_moves = true;
  state.only_counts.emplace();
  state.only_slots.emplace();
  for (AgentId id : state.agents) {
    const std::vector<std::uint32_t>& only = roster_.agent(id)->only;
    state.only_counts->push_back(static_cast<std::uint32_t>(only.size()));
    state.only_slots->insert(state.only_slots->end(), only.begin(), only.end());
  }
}

void StateRecord::record_workers(record::RunState& state) const {
  for (const auto& [id, worker] : roster_.workers()) {
    state.workers.push_back(id);
    state.worker_agents.push_back(worker.agent);
    state.worker_slots.push_back(worker.slot);
  }
}

// The open change, in the form of the records "abort", "prepare" and "commit".
void StateRecord::record_change(record::RunState& state) const {
  if (recovery_.active()) {
    state.fence = recovery_.fence;
    state.halted = recovery_.living(roster_);
  }
  if (change_.stage != Stage::kPreparing && change_.stage != Stage::kCommitted) return;
  state.plan = change_.generation;
  state.committed = change_.stage == Stage::kCommitted;
  state.plan_members = change_.members;
  state.plan_shares = shares_of(change_.plan);
  state.plan_factor = change_.plan.learning_rate_factor;
  state.plan_synchronization = change_.plan.synchronization;
  state.plan_first_step = recovery_.active() ? recovery_.resume_step + 1 : change_.first_step;
}

}  // namespace elastictrain::core
