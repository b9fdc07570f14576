// The part of the state machine that writes its whole state as one record.
#include <utility>

#include "supervisor/core/membership_impl.h"

namespace elastictrain::core {

Journal Membership::Impl::state_record() const {
  record::RunState state;
  state.generation = generation_;
  state.issued = issued_;
  record_members(state);
  record_hosts(state);
  record_workers(state);
  record_change(state);
  for (const protocol::Fence& fence : lineage_) {
    state.lineage.push_back(fence.generation);
    state.first_steps.push_back(fence.first_step);
  }
  state.target = target_;
  state.target_reason = target_reason_;
  record_plan_update(state);
  state.last_agent = roster_.last_agent();
  state.last_worker = roster_.last_worker();
  return {Record(std::in_place_type<record::RunState>, std::move(state)), true};
}

void Membership::Impl::record_members(record::RunState& state) const {
  state.members = members_;
  for (WorkerId id : members_) {
    const Worker* worker = roster_.worker(id);
    state.shares.push_back(worker == nullptr ? 0 : worker->share);
  }
  state.finished.assign(finished_.begin(), finished_.end());
  state.learning_rate_factor = learning_rate_factor_;
  state.synchronization = synchronization_;
}

void Membership::Impl::record_hosts(record::RunState& state) const {
  for (const auto& [id, agent] : roster_.agents()) {
    if (agent.link == Link::kDown || agent.stopping) continue;
    state.agents.push_back(id);
    state.hosts.push_back(agent.host);
    state.slots.push_back(agent.slots);
    if (agent.link == Link::kUp) state.connected.push_back(id);
    if (agent.drain) state.draining.push_back(id);
  }
}

void Membership::Impl::record_workers(record::RunState& state) const {
  for (const auto& [id, worker] : roster_.workers()) {
    state.workers.push_back(id);
    state.worker_agents.push_back(worker.agent);
    state.worker_slots.push_back(worker.slot);
  }
}

// The open change, in the form of the records "abort", "prepare" and "commit".
void Membership::Impl::record_change(record::RunState& state) const {
  if (recovering()) {
    state.fence = recovery_.fence;
    state.halted = living_members();
  }
  if (change_.stage != Stage::kPreparing && change_.stage != Stage::kCommitted) return;
  state.plan = change_.generation;
  state.committed = change_.stage == Stage::kCommitted;
  state.plan_members = change_.members;
  state.plan_shares = shares_of(plan_);
  state.plan_factor = plan_.learning_rate_factor;
  state.plan_synchronization = plan_.synchronization;
  state.plan_first_step = recovering() ? recovery_.resume_step + 1 : change_.first_step;
}

std::vector<std::uint32_t> Membership::Impl::shares_of(const protocol::GenerationPlan& plan) {
  std::vector<std::uint32_t> shares;
  for (const protocol::Member& member : plan.members) shares.push_back(member.share);
  return shares;
}

}  // namespace elastictrain::core
