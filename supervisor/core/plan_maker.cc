#include "supervisor/core/plan_maker.h"

#include <algorithm>
#include <set>

#include "supervisor/core/change.h"
#include "supervisor/core/desired_state.h"
#include "supervisor/core/recovery.h"
#include "supervisor/core/settings.h"
#include "supervisor/core/training.h"
#include "supervisor/protocol/topology_choice.h"

namespace elastictrain::core {

PlanMaker::PlanMaker(const RunSettings& settings, const Roster& roster, const Training& training, const Change& change,
                     const Recovery& recovery, const DesiredState& desired, std::function<Token()> make_token)
    : settings_(settings),
      roster_(roster),
      training_(training),
      change_(change),
      recovery_(recovery),
      desired_(desired),
      make_token_(std::move(make_token)) {}

std::vector<WorkerId> PlanMaker::addressees() const {
  std::set<WorkerId> ids(change_.members.begin(), change_.members.end());
  ids.insert(training_.members.begin(), training_.members.end());
  std::vector<WorkerId> list;
  for (WorkerId id : ids) {
    const Worker* worker = roster_.worker(id);
    if (worker != nullptr && !worker->finished() && !worker->stop_sent()) list.push_back(id);
  }
  return list;
}

// In a recovery a member that lacks the newest state is one of the workers that receive it.
bool PlanMaker::joins(WorkerId id) const {
  return !training_.is_member(id) || (recovery_.active() && !recovery_.holds_state(roster_.worker(id)));
}

std::vector<double> PlanMaker::speeds_of(const std::vector<PlanMember>& members) const {
  std::vector<double> speeds;
  if (desired_.speeds.empty()) return speeds;
  for (const PlanMember& member : members) {
    const auto known = desired_.speeds.find(member.worker);
    speeds.push_back(known == desired_.speeds.end() ? 1.0 : known->second);
  }
  return speeds;
}

bool PlanMaker::some_state_goes_away() const {
  const auto& members = training_.members;
  return !settings_.leased && std::any_of(members.begin(), members.end(), [this](WorkerId id) {
    const Worker* worker = roster_.worker(id);
    const Agent* agent = worker == nullptr ? nullptr : roster_.agent(worker->agent);
    return agent != nullptr && agent->goes_away();
  });
}

protocol::GenerationPlan PlanMaker::make() const {
  std::vector<PlanMember> members;
  for (WorkerId id : change_.members) {
    const Worker& worker = *roster_.worker(id);
    members.push_back({id, worker.host, worker.facts.endpoint, !joins(id)});
  }
  protocol::GenerationPlan plan =
      make_plan(settings_, change_.generation, training_.generation, members, speeds_of(members));
  plan.kind = change_.kind;
  plan.reason = change_.reason;
  plan.token = make_token_();
  plan.lineage = training_.lineage;
  plan.saves = settings_.has_checkpoints && some_state_goes_away();
  if (!recovery_.active()) return plan;
  // The open step began this way; a different desired state follows as a separate change.
  if (training_.generation != 0) plan.synchronization = training_.synchronization;
  plan.fence = recovery_.fence;
  plan.resume_step = recovery_.resume_step;
  for (WorkerId id : training_.members) {
    if (members.empty() && recovery_.holds_state(roster_.worker(id))) plan.donors.push_back(id);
  }
  return plan;
}

record::Prepare PlanMaker::record_of(const protocol::GenerationPlan& plan) const {
  record::Prepare about{.generation = plan.generation,
                        .previous = plan.previous,
                        .kind = plan.kind,
                        .reason = plan.reason,
                        .members = change_.members,
                        .leavers = change_.leavers,
                        .shares = shares_of(plan),
                        .donors = plan.donors,
                        .learning_rate_factor = plan.learning_rate_factor};
  const std::string topology = protocol::text_of(plan.topology, plan.parents);
  if (topology != protocol::name_of(protocol::Topology::kAuto)) about.topology = topology;
  if (plan.synchronization != protocol::Synchronization::kGradients) about.synchronization = plan.synchronization;
  if (!recovery_.active()) return about;
  about.fence = plan.fence;
  about.resume_step = plan.resume_step;
  return about;
}

std::vector<std::uint32_t> shares_of(const protocol::GenerationPlan& plan) {
  std::vector<std::uint32_t> shares;
  for (const protocol::Member& member : plan.members) shares.push_back(member.share);
  return shares;
}

}  // namespace elastictrain::core
