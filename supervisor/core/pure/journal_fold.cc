#include "supervisor/core/pure/journal_fold.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

namespace elastictrain::core {
namespace {

constexpr std::size_t kMaxFoldedLineage = 256;
constexpr std::uint32_t kMaxSkip = std::uint32_t{1} << 31;  // beyond it no number can follow

template <class Number>
void skip(Number& used, std::uint64_t lost) {
  if (used < kMaxSkip) used += static_cast<Number>(std::min<std::uint64_t>(lost, kMaxSkip));
}

// The same fields of both records.
template <class R>
UpdatePlan plan_update_of(const R& about) {
  UpdatePlan update;
  if (about.per_worker.value_or(0) != 0) update.per_worker = about.per_worker;
  if (about.program_batch.value_or(0) != 0) update.program_batch = about.program_batch;
  if (about.program_max_global.value_or(0) != 0) update.program_max_global = about.program_max_global;
  update.learning_rate_factor = about.target_factor;
  update.noise_scale = about.target_noise_scale;
  update.topology = about.target_topology;
  update.parents = about.target_parents;
  update.synchronization = about.target_synchronization;
  return update;
}

}  // namespace

void JournalFold::take(const Record& record) {
  record.visit([this](const auto& about) { on(about); });
}

void JournalFold::on(const record::RunOpened& about) {
  state_ = State{};
  state_.schema = about.schema;
  state_.boot = about.boot.value_or("");
  state_.leased = about.leased.value_or(false);
  state_.target = state_.leased ? about.max_workers : about.start_workers;
}

void JournalFold::on(const record::RunResumed& about) {
  state_.schema = std::max(state_.schema, about.schema);
  continue_in(about.boot.value_or(""));
  state_.ending = state_.ended = false;
  state_.leased = about.leased.value_or(false);
  state_.requests.clear();  // those that were not answered never will be, and their numbers are given again
  std::erase_if(state_.agents, [](const auto& entry) { return entry.second.ended && !entry.second.drain; });
  for (auto& [id, agent] : state_.agents) {
    agent.connected = true;  // each is waited for, whether it has come before
    agent.offered = true;    // unless the list of hosts says otherwise again
  }
  for (auto& [number, plan] : state_.plans) plan.inherited = true;
  if (!about.anew.value_or(false)) return;
  state_.agents.clear();
  state_.workers.clear();
  state_.finished.clear();
  state_.lease.slots = 0;
}

// --- Hosts and agents

void JournalFold::on(const record::HostOffered& about) {
  add_agent(about);
}

void JournalFold::on(const record::HostAgain& about) {
  add_agent(about);
}

template <class R>
void JournalFold::add_agent(const R& about) {
  if (about.agent.value == 0) return;
  std::erase_if(state_.agents,
                [&](const auto& entry) { return entry.second.ended && entry.second.host == about.host; });
  state_.agents[about.agent] = {
      .host = about.host, .slots = about.slots, .only = about.only.value_or(std::vector<std::uint32_t>{})};
  state_.last_agent = std::max(state_.last_agent, about.agent.value);
}

void JournalFold::end_agent(AgentId id) {
  const auto found = state_.agents.find(id);
  if (found == state_.agents.end()) return;
  found->second.ended = true;
  // A lease says anew which hosts it has.
  if (state_.leased || !found->second.offered) state_.agents.erase(found);
  std::erase_if(state_.workers, [&](const auto& entry) { return entry.second.agent == id; });
}

// The newest: an older agent of the host was told to stop, or is lost.
JournalFold::KnownAgent* JournalFold::agent_on(const std::string& host, AgentId* id) {
  const auto found = std::find_if(state_.agents.rbegin(), state_.agents.rend(),
                                  [&](const auto& entry) { return entry.second.host == host; });
  if (found == state_.agents.rend()) return nullptr;
  if (id != nullptr) *id = found->first;
  return &found->second;
}

void JournalFold::on(const record::HostSlotsChanged& about) {
  KnownAgent* agent = agent_on(about.host);
  if (agent == nullptr) return;
  agent->slots = about.slots;
  agent->only = about.only.value_or(std::vector<std::uint32_t>{});
}

void JournalFold::on(const record::HostVanished& about) {
  AgentId id;
  KnownAgent* agent = agent_on(about.host, &id);
  if (agent == nullptr) return;
  // An agent that had not connected yet was told to stop, and is not waited for.
  if (agent->ended || !agent->connected) {
    state_.agents.erase(id);
    return;
  }
  agent->offered = false;
  // A list of hosts is read again by the next supervisor; a lease may not be said again.
  if (state_.leased) agent->drain = true;
}

void JournalFold::on(const record::HostBack& about) {
  KnownAgent* agent = agent_on(about.host);
  if (agent == nullptr) return;
  agent->drain = agent->noticed = false;
  agent->offered = true;
}

void JournalFold::on(const record::HostNotice& about) {
  const auto found = state_.agents.find(about.agent);
  if (found != state_.agents.end()) found->second.drain = found->second.noticed = true;
}

void JournalFold::on(const record::AgentConnected& about) {
  const auto found = state_.agents.find(about.agent);
  if (found != state_.agents.end()) found->second.connected = true;
}

// --- Workers

// It is no member any more, although its process may still be there.
void JournalFold::on(const record::NewcomerSentAway& about) {
  const auto leave_out = [&](Plan& plan) {
    const auto found = std::find(plan.members.begin(), plan.members.end(), about.worker);
    if (found == plan.members.end()) return;
    const auto rank = static_cast<std::size_t>(found - plan.members.begin());
    if (rank < plan.shares.size()) plan.shares.erase(plan.shares.begin() + static_cast<std::ptrdiff_t>(rank));
    plan.members.erase(found);
  };
  leave_out(state_.now);
  for (auto& [generation, plan] : state_.plans) leave_out(plan);
  // Its end may have been ordered in vain: it is in a generation, and no later one may plan with it.
  if (const auto found = state_.workers.find(about.worker); found != state_.workers.end()) found->second.left = true;
}

void JournalFold::on(const record::Spawn& about) {
  Resumed::WorkerPlace worker{about.worker, about.agent.value_or(AgentId{}), about.slot};
  if (!about.agent) agent_on(about.host, &worker.agent);
  if (worker.worker.value == 0) return;
  const bool begins = state_.generation == 0 && (!state_.first || !state_.workers.contains(*state_.first));
  if (begins) state_.first = about.worker;
  state_.last_worker = std::max<std::uint64_t>(state_.last_worker, worker.worker.value);
  if (state_.agents.contains(worker.agent)) state_.workers[worker.worker] = worker;
}

void JournalFold::on(const record::Left& about) {
  const auto found = state_.workers.find(about.worker);
  if (found != state_.workers.end()) found->second.left = true;
}

void JournalFold::on(const record::Finished& about) {
  state_.finished.insert(about.worker);
  if (ends_before_the_boundary()) state_.committed.reset();
}

// A change that is in progress when the run ends at once has no other record.
void JournalFold::on(const record::Ending& about) {
  state_.ending = true;
  if (about.now && (state_.committed || state_.open_fence)) state_.gap = true;
}

// All members have finished before one of them reached the boundary of the committed change: it does not happen.
bool JournalFold::ends_before_the_boundary() const {
  if (!state_.committed || state_.open_fence || state_.now.members.empty()) return false;
  const auto plan = state_.plans.find(*state_.committed);
  if (plan != state_.plans.end() && plan->second.first_step != 0) return false;
  return std::all_of(state_.now.members.begin(), state_.now.members.end(),
                     [this](WorkerId id) { return state_.finished.contains(id) || !state_.workers.contains(id); });
}

// --- The desired state

void JournalFold::on(const record::ResizeRequested& about) {
  state_.requests[about.request] = {.target = about.target, .reason = about.reason};
}

void JournalFold::on(const record::DrainRequested& about) {
  state_.requests[about.request] = {.host = about.host};
}

void JournalFold::on(const record::UndrainRequested& about) {
  state_.requests[about.request] = {.host = about.host, .undrain = true};
}

void JournalFold::drain(const std::string& host) {
  AgentId id;
  KnownAgent* agent = agent_on(host, &id);
  if (agent == nullptr) return;
  agent->drain = true;
  // One that had not connected yet was told to stop, and is not waited for.
  if (!agent->connected) end_agent(id);
}

// A successor of an agent that has ended has a record of its own.
void JournalFold::undrain(const std::string& host) {
  KnownAgent* agent = agent_on(host);
  if (agent != nullptr) agent->drain = false;
}

void JournalFold::on(const record::Accepted& about) {
  const auto found = state_.requests.find(about.request);
  if (found == state_.requests.end()) return;
  const Request request = std::move(found->second);
  state_.requests.erase(found);
  if (request.target != 0) {
    state_.refused.reset();
    state_.target = request.target;
    state_.target_reason = request.reason.empty() ? "requested by the user" : request.reason;
  } else if (request.undrain) {
    undrain(request.host);
  } else {
    drain(request.host);
  }
}

void JournalFold::on(const record::Target& about) {
  state_.target = about.target;
  state_.target_reason = about.reason;
}

void JournalFold::on(const record::PlanUpdated& about) {
  state_.plan_update = plan_update_of(about);
}

// --- Changes

void JournalFold::on(const record::Prepare& about) {
  Plan& plan = state_.plans[about.generation];
  plan.members = about.members;
  plan.shares = about.shares;
  plan.learning_rate_factor = about.learning_rate_factor;
  plan.synchronization = about.synchronization.value_or(protocol::Synchronization::kGradients);
  if (about.fence) plan.first_step = about.resume_step.value_or(0) + 1;
  state_.issued = std::max(state_.issued, about.generation);
  state_.open_plan = true;
}

void JournalFold::on(const record::Cancel& about) {
  state_.plans.erase(about.generation);
  state_.open_plan = false;
}

void JournalFold::on(const record::Commit& about) {
  state_.committed = about.generation;
  state_.open_plan = false;
}

void JournalFold::on(const record::Active& about) {
  remember(about.generation, about.first_step);
  const auto found = state_.plans.find(about.generation);
  if (found != state_.plans.end() && found->second.first_step == 0) found->second.first_step = about.first_step;
}

// A change that was adopted, but is not known to have begun a step, fences nothing out.
void JournalFold::remember(Generation generation, Step first_step) {
  if (first_step == 0) return;
  if (!state_.lineage.empty() && state_.lineage.back().generation >= generation) return;
  state_.lineage.push_back({generation, first_step});
  if (state_.lineage.size() > kMaxFoldedLineage) state_.lineage.erase(state_.lineage.begin());
}

void JournalFold::on(const record::GenerationComplete& about) {
  Plan plan = state_.plans[about.generation];
  plan.members = about.members;
  if (!plan.members.empty()) remember(about.generation, about.first_step != 0 ? about.first_step : plan.first_step);
  state_.now = std::move(plan);
  state_.generation = about.generation;
  state_.restarting = false;
  state_.issued = std::max(state_.issued, about.generation);
  state_.committed.reset();
  state_.plans.clear();
  state_.open_plan = false;
  state_.open_fence = false;
  state_.gap = false;
}

// That of a start, or of the last step of a run that ends, ends the run and leaves its target.
void JournalFold::on(const record::GivenUp&) {
  if (state_.ending || state_.generation == 0) return;
  if (state_.leased) {
    state_.target_reason = "the last change was given up";
    return;
  }
  state_.target = static_cast<std::uint32_t>(state_.now.members.size());
  state_.target_reason = "the last change was given up";
}

// --- Recoveries

void JournalFold::on(const record::Abort& about) {
  state_.issued = std::max(state_.issued, about.fence);
  state_.open_fence = true;
  state_.open_plan = false;
  state_.halted = about.members;
}

// Some workers had adopted a change before the fence ended it, so it was a generation after all. Without a member there
// is nothing to recover: either all have left as they were told to, or "state_lost" follows.
void JournalFold::on(const record::HaltSettled& about) {
  if (about.generation > state_.generation) {
    const auto found = state_.plans.find(about.generation);
    if (found != state_.plans.end()) {
      if (!found->second.inherited) remember(about.generation, found->second.first_step);
      state_.now = found->second;
    }
    state_.generation = about.generation;
  }
  state_.committed.reset();
  if (!about.members || !about.members->empty()) return;
  state_.now.members.clear();
  state_.now.shares.clear();
  state_.open_fence = false;
}

void JournalFold::on(const record::StateLost&) {
  state_.restarting = true;
  state_.generation = 0;
  state_.now = Plan{};
  state_.committed.reset();
  state_.open_fence = false;
  state_.target_reason = "start again";
}

// --- Missing records

// A full disk lost these records.
void JournalFold::on(const record::JournalGap& about) {
  miss_records(about.lost);
}

void JournalFold::continue_in(const std::string& boot) {
  if (!state_.boot.empty() && !boot.empty() && boot != state_.boot) miss_records(kMaxUnsyncedRecords);
  state_.boot = boot;
}

// Numbers that they issued must not be issued again, and every worker must report its position.
void JournalFold::miss_records(std::uint64_t count) {
  skip(state_.last_agent, count);
  skip(state_.last_worker, count);
  skip(state_.issued, count);
  state_.gap = true;
}

// The content of the missing records.
void JournalFold::on(const record::RunState& about) {
  if (!about.issued) return;
  State state;
  state.schema = state_.schema;
  state.boot = state_.boot;
  state.leased = state_.leased;
  state.ending = state_.ending;
  state.generation = about.generation;
  state.issued = *about.issued;
  state.now = {about.members, about.shares, about.learning_rate_factor, about.synchronization, 0};
  state.finished = {about.finished.begin(), about.finished.end()};
  state.target = about.target;
  state.target_reason = about.target_reason;
  state.plan_update = plan_update_of(about);
  state.first = about.first;
  state.restarting = about.restarting.value_or(false);
  if (about.refused_size) state.refused = GrowRefusal{*about.refused_size, about.refused_reason.value_or("")};
  if (about.held_ms) state.hold = SizeHold{Millis(*about.held_ms)};
  state.last_agent = about.last_agent;
  state.last_worker = about.last_worker;
  restore_agents(about, state);
  restore_lease(about, state);
  restore_workers(about, state);
  restore_plan(about, state);
  state.gap = about.unsettled.value_or(false);
  state_ = std::move(state);
  for (std::size_t i = 0; i < std::min(about.lineage.size(), about.first_steps.size()); ++i) {
    remember(about.lineage[i], about.first_steps[i]);
  }
}

void JournalFold::restore_agents(const record::RunState& about, State& state) {
  for (std::size_t i = 0; i < std::min({about.agents.size(), about.hosts.size(), about.slots.size()}); ++i) {
    state.agents[about.agents[i]] = {.host = about.hosts[i], .slots = about.slots[i]};
  }
  const auto mark = [&](const std::vector<AgentId>& ids, bool KnownAgent::*flag) {
    for (AgentId id : ids) {
      if (const auto found = state.agents.find(id); found != state.agents.end()) found->second.*flag = true;
    }
  };
  mark(about.connected, &KnownAgent::connected);
  mark(about.draining, &KnownAgent::drain);
  mark(about.drained.value_or(std::vector<AgentId>{}), &KnownAgent::ended);
  mark(about.noticed.value_or(std::vector<AgentId>{}), &KnownAgent::noticed);
}

void JournalFold::restore_lease(const record::RunState& about, State& state) {
  state.lease = {about.lease_version.value_or(0), about.lease_slots.value_or(0), about.lease_reason.value_or(""),
                 about.lease_hold.value_or(false), about.lease_moves.value_or(false)};
  if (!about.only_counts || !about.only_slots) return;
  std::size_t next = 0;
  for (std::size_t i = 0; i < std::min(about.agents.size(), about.only_counts->size()); ++i) {
    const std::size_t count = std::min<std::size_t>((*about.only_counts)[i], about.only_slots->size() - next);
    const auto first = about.only_slots->begin() + static_cast<std::ptrdiff_t>(next);
    const auto found = state.agents.find(about.agents[i]);
    if (found != state.agents.end()) found->second.only.assign(first, first + static_cast<std::ptrdiff_t>(count));
    next += count;
  }
}

void JournalFold::restore_workers(const record::RunState& about, State& state) {
  const auto count = std::min({about.workers.size(), about.worker_agents.size(), about.worker_slots.size()});
  for (std::size_t i = 0; i < count; ++i) {
    if (!state.agents.contains(about.worker_agents[i])) continue;
    state.workers[about.workers[i]] = {about.workers[i], about.worker_agents[i], about.worker_slots[i]};
  }
}

void JournalFold::restore_plan(const record::RunState& about, State& state) {
  state.open_fence = about.fence.has_value();
  state.halted = about.halted.value_or(std::vector<WorkerId>{});
  const Generation generation = about.plan.value_or(0);
  if (generation == 0) return;
  Plan& plan = state.plans[generation];
  plan.members = about.plan_members.value_or(std::vector<WorkerId>{});
  plan.shares = about.plan_shares.value_or(std::vector<std::uint32_t>{});
  plan.learning_rate_factor = about.plan_factor.value_or(1.0);
  plan.synchronization = about.plan_synchronization.value_or(protocol::Synchronization::kGradients);
  plan.first_step = about.plan_first_step.value_or(0);
  const bool committed = about.committed.value_or(false);
  state.open_plan = !committed;
  if (committed) state.committed = generation;
}

// --- The result

// A damaged record may name ids that no other record issued; an id that was named is not issued again.
void JournalFold::raise_highest(Resumed& resumed) const {
  const auto raise = [](auto& highest, std::uint64_t number) {
    highest = static_cast<std::decay_t<decltype(highest)>>(std::max<std::uint64_t>(highest, number));
  };
  const auto raise_workers = [&](const auto& ids) {
    for (const WorkerId id : ids) raise(resumed.last_worker, id.value);
  };
  raise(resumed.issued, resumed.generation);
  if (!state_.plans.empty()) raise(resumed.issued, state_.plans.rbegin()->first);
  raise(resumed.issued, state_.committed.value_or(0));
  if (!resumed.lineage.empty()) raise(resumed.issued, resumed.lineage.back().generation);
  if (!state_.agents.empty()) raise(resumed.last_agent, state_.agents.rbegin()->first.value);
  if (!state_.workers.empty()) raise(resumed.last_worker, state_.workers.rbegin()->first.value);
  raise_workers(resumed.members);
  raise_workers(resumed.unsettled_members);
  raise_workers(resumed.finished);
}

void JournalFold::add_unsettled(Resumed& resumed) const {
  resumed.unsettled = state_.gap || state_.open_plan || state_.open_fence || state_.committed.has_value();
  std::set<WorkerId> unsettled;
  if (state_.open_fence) unsettled.insert(state_.halted.begin(), state_.halted.end());
  const auto plan = state_.committed ? state_.plans.find(*state_.committed) : state_.plans.end();
  if (plan != state_.plans.end()) unsettled.insert(plan->second.members.begin(), plan->second.members.end());
  resumed.unsettled_members.assign(unsettled.begin(), unsettled.end());
  // The plan's record is missing (a full disk): a recovery makes a new one.
  if (resumed.shares.size() == resumed.members.size()) return;
  resumed.shares.assign(resumed.members.size(), 0);
  resumed.unsettled = true;
}

Resumed JournalFold::result() const {
  Resumed resumed;
  for (const auto& [id, agent] : state_.agents) {
    if (agent.ended && !agent.drain) continue;
    resumed.agents.push_back({id, agent.host, agent.slots, agent.drain, agent.only, agent.ended, agent.noticed});
  }
  for (const auto& [id, worker] : state_.workers) resumed.workers.push_back(worker);
  resumed.generation = state_.generation;
  resumed.issued = state_.issued;
  resumed.members = state_.now.members;
  resumed.shares = state_.now.shares;
  resumed.learning_rate_factor = state_.now.learning_rate_factor;
  resumed.synchronization = state_.now.synchronization;
  resumed.lineage = state_.lineage;
  resumed.target = state_.target;
  resumed.target_reason = state_.target_reason;
  resumed.plan_update = state_.plan_update;
  resumed.hold = state_.hold;
  resumed.refused = state_.refused;
  resumed.first = state_.first;
  resumed.restarting = state_.restarting;
  resumed.lease = state_.lease;
  add_unsettled(resumed);
  resumed.finished.assign(state_.finished.begin(), state_.finished.end());
  resumed.plain_restarts = state_.plain_restarts;
  resumed.last_agent = state_.last_agent;
  resumed.last_worker = state_.last_worker;
  raise_highest(resumed);
  return resumed;
}

}  // namespace elastictrain::core
