// The part of the state machine that writes its whole state as one record.
#include <utility>

#include "supervisor/core/membership_impl.h"
#include "supervisor/protocol/names.h"

namespace elastictrain::core {
namespace {

using Numbers = std::vector<std::uint64_t>;

}  // namespace

Journal Membership::Impl::state_record() const {
  Fields fields;
  fields.number("generation", generation_).number("issued", issued_);
  record_members(fields);
  record_hosts(fields);
  record_workers(fields);
  record_change(fields);
  Numbers generations;
  Numbers first_steps;
  for (const protocol::Fence& fence : lineage_) {
    generations.push_back(fence.generation);
    first_steps.push_back(fence.first_step);
  }
  fields.numbers("lineage", generations).numbers("first_steps", first_steps);
  fields.number("target", target_).text("target_reason", target_reason_);
  record_reshared(fields);
  fields.number("last_agent", roster_.last_agent()).number("last_worker", roster_.last_worker());
  return {"run_state", std::move(fields).take(), true};
}

void Membership::Impl::record_members(Fields& fields) const {
  Numbers shares;
  for (WorkerId id : members_) {
    const Worker* worker = roster_.worker(id);
    shares.push_back(worker == nullptr ? 0 : worker->share);
  }
  Numbers finished;
  for (WorkerId id : finished_) finished.push_back(id.value);
  fields.numbers("members", numbers_of(members_)).numbers("shares", shares).numbers("finished", finished);
  fields.real("learning_rate_factor", learning_rate_factor_);
  fields.text("synchronization", protocol::name_of(synchronization_));
}

void Membership::Impl::record_reshared(Fields& fields) const {
  if (reshared_.per_worker) fields.number("per_worker", *reshared_.per_worker);
  if (reshared_.learning_rate_factor) fields.real("wished_factor", *reshared_.learning_rate_factor);
  if (reshared_.noise_scale) fields.real("wished_noise_scale", *reshared_.noise_scale);
  if (reshared_.fathers) fields.numbers("wished_fathers", {reshared_.fathers->begin(), reshared_.fathers->end()});
  if (reshared_.topology) fields.text("wished_topology", protocol::name_of(*reshared_.topology));
  if (reshared_.synchronization) fields.text("wished_synchronization", protocol::name_of(*reshared_.synchronization));
}

void Membership::Impl::record_hosts(Fields& fields) const {
  Numbers agents;
  Numbers slots;
  Numbers connected;
  Numbers draining;
  std::vector<std::string> hosts;
  for (const auto& [id, agent] : roster_.agents()) {
    if (agent.link == Link::kDown || agent.stopping) continue;
    agents.push_back(id.value);
    hosts.push_back(agent.host);
    slots.push_back(agent.slots);
    if (agent.link == Link::kUp) connected.push_back(id.value);
    if (agent.drain) draining.push_back(id.value);
  }
  fields.numbers("agents", agents).texts("hosts", hosts).numbers("slots", slots);
  fields.numbers("connected", connected).numbers("draining", draining);
}

void Membership::Impl::record_workers(Fields& fields) const {
  Numbers workers;
  Numbers agents;
  Numbers slots;
  for (const auto& [id, worker] : roster_.workers()) {
    workers.push_back(id.value);
    agents.push_back(worker.agent.value);
    slots.push_back(worker.slot);
  }
  fields.numbers("workers", workers).numbers("worker_agents", agents).numbers("worker_slots", slots);
}

// The open change, in the form of the records "abort", "prepare" and "commit".
void Membership::Impl::record_change(Fields& fields) const {
  if (recovering()) fields.number("fence", recovery_.fence).numbers("halted", numbers_of(living_members()));
  if (change_.stage != Stage::kPreparing && change_.stage != Stage::kCommitted) return;
  Numbers shares;
  for (const protocol::Member& member : plan_.members) shares.push_back(member.share);
  fields.number("plan", change_.generation)
      .flag("committed", change_.stage == Stage::kCommitted)
      .numbers("plan_members", numbers_of(change_.members))
      .numbers("plan_shares", shares)
      .real("plan_factor", plan_.learning_rate_factor)
      .text("plan_synchronization", protocol::name_of(plan_.synchronization))
      .number("plan_first_step", recovering() ? recovery_.resume_step + 1 : change_.first_step);
}

}  // namespace elastictrain::core
