#include "supervisor/core/snapshot.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "supervisor/core/changing.h"
#include "supervisor/core/pure/swap_plan.h"

namespace elastictrain::core {
namespace {

// A program whose processes have sent nothing for this long is shown as a running plain program.
constexpr Millis kPlainAfter{5'000};

// So many a program announces that ends by itself.
constexpr std::uint64_t kEndlessEpochs = std::uint64_t{1} << 40;

void add(std::optional<std::vector<AgentId>>& list, AgentId id) {
  if (!list) list.emplace();
  list->push_back(id);
}

// The workers that take part in the change in flight, for a look at all workers.
struct InChange {
  std::unordered_set<WorkerId> planned;
  std::unordered_set<WorkerId> leaving;  // at its boundary
};

}  // namespace

static RunPhase shown_phase_of(const Run& run) {
  if (run.end.over) return RunPhase::kEnded;
  if (run.end.begun()) return RunPhase::kStopping;
  if (run.training.generation == 0) return RunPhase::kStarting;
  return run.change.stage == Stage::kIdle ? RunPhase::kRunning : RunPhase::kChanging;
}

static RunPhase shown_phase(const Run& run) {
  const RunPhase actual = shown_phase_of(run);
  const bool plain = run.startup.is_plain() && run.out.now() - run.startup.spawned_at >= kPlainAfter;
  return actual == RunPhase::kStarting && plain ? RunPhase::kRunning : actual;
}

static InChange in_change(const Run& run) {
  InChange in;
  in.planned = {run.change.members.begin(), run.change.members.end()};
  if (run.change.stage == Stage::kCommitted) in.leaving = {run.change.leavers.begin(), run.change.leavers.end()};
  return in;
}

static WorkerPhase phase_of(const Run& run, const Worker& worker, const InChange& in) {
  if (worker.dying() || worker.left() || worker.finished()) return WorkerPhase::kLeaving;
  if (in.leaving.contains(worker.id)) return WorkerPhase::kLeaving;
  if (run.training.is_member(worker.id)) return WorkerPhase::kMember;
  if (!worker.ready()) return WorkerPhase::kStarting;
  return in.planned.contains(worker.id) ? WorkerPhase::kJoining : WorkerPhase::kSpare;
}

static AgentPhase phase_of(const Run& run, const Agent& agent) {
  const bool cools = run.health.cooled_until(agent.host, run.out.now()).has_value();
  if (agent.drained()) return agent.noticed ? AgentPhase::kLeft : AgentPhase::kDrained;
  if (agent.link == Link::kDown) return cools ? AgentPhase::kCooling : AgentPhase::kLost;
  if (agent.drain || agent.stopping || !agent.offered) return AgentPhase::kDraining;
  if (agent.link == Link::kLaunching) return AgentPhase::kLaunching;
  if (agent.cut_off) return AgentPhase::kReconnecting;
  if (agent.suspect) return AgentPhase::kSuspect;
  return cools ? AgentPhase::kCooling : AgentPhase::kUp;
}

static WorkerView view_of(const Run& run, const Worker& worker, const InChange& in) {
  WorkerView view;
  view.worker = worker.id;
  view.phase = phase_of(run, worker, in);
  view.agent = worker.agent;
  view.host = worker.host;
  view.slot = worker.slot;
  view.quiet_ms = worker.quiet_ms;
  view.heartbeat = worker.heartbeat;
  if (run.startup.is_plain()) view.rank = worker.expected_rank;
  return view;
}

static AgentView view_of(const Run& run, const Agent& agent) {
  return {agent.id,
          agent.host,
          agent.usable_slots(),
          phase_of(run, agent),
          static_cast<std::uint32_t>(agent.workers.size()),
          agent.last_seen,
          agent.link == Link::kDown,
          agent.warm,
          agent.link == Link::kDown ? agent.lost_reason : ""};
}

static void show_failures(const Run& run, RunView& view) {
  for (const FailureClass what :
       {FailureClass::kCrash, FailureClass::kHang, FailureClass::kPreemption, FailureClass::kInfrastructure}) {
    if (run.losses.budget.total(what) == 0) continue;
    view.failures.push_back({class_name(what), run.losses.budget.total(what),
                             static_cast<std::uint32_t>(run.losses.budget.count(what, run.out.now())),
                             run.losses.budget.limit(what)});
  }
  for (const HostHealth::Cooled& host : run.health.cooled(run.out.now())) {
    const auto left = std::chrono::duration_cast<Millis>(host.until - run.out.now());
    view.cooled_hosts.push_back({host.host, host.failures, static_cast<std::uint64_t>(left.count()), host.reason});
  }
}

// All workers have the same data.
static void show_data(const Run& run, RunView& view) {
  const auto found = std::find_if(run.roster.workers().begin(), run.roster.workers().end(),
                                  [](const auto& entry) { return entry.second.ready(); });
  if (found == run.roster.workers().end()) return;
  const protocol::WorkerReady& facts = found->second.facts;
  view.epoch_samples = facts.sample_count;
  view.epochs = facts.epochs < kEndlessEpochs ? facts.epochs : 0;
  view.max_steps = facts.max_steps;
}

RunView view_of_run(const Run& run) {
  RunView view;
  view.run_name = run.settings.run_name;
  view.phase = shown_phase(run);
  view.generation = run.training.generation;
  view.world_size = static_cast<std::uint32_t>(run.training.members.size());
  if (run.startup.is_plain()) view.world_size = run.startup.first_size;
  view.asked_size = run.desired.target;
  view.target_size = run.settings.leased ? std::min(run.desired.target, run.desired.lease.slots) : run.desired.target;
  if (run.settings.leased) view.lease = run.desired.lease;
  view.stands = run.desired.lease.hold && run.recovery.active() && run.change.stage == Stage::kGathering;
  view.gathering = run.change.stage == Stage::kGathering && !run.recovery.active();
  view.batch = run.settings.batch;
  view.start_ms = static_cast<std::uint64_t>(run.startup.newest_start.count());
  view.base_batch = base_batch(run.settings);
  if (run.desired.refused) view.grow_refused = run.desired.refused->reason;
  view.unmet = run.desired.unmet;
  view.held = run.desired.held.has_value();
  view.held_left_ms = run.desired.hold_left_ms(run.out.now());
  view.learning_rate_factor = run.training.learning_rate_factor;
  view.topology = run.training.topology;
  view.parents = run.training.parents;
  view.synchronization = run.training.synchronization;
  view.size_reason = run.training.size_reason;
  if (run.training.generation == 0 && run.startup.spawned) {
    view.size_reason = run.training.restarting ? "the run starts again" : "the program has not joined the run (yet)";
  }
  view.last_change = run.training.last_change;
  show_data(run, view);
  const InChange in = in_change(run);
  for (std::uint32_t rank = 0; rank < run.training.members.size(); ++rank) {
    const Worker* worker = run.roster.worker(run.training.members[rank]);
    if (worker == nullptr) continue;
    WorkerView& member = view.workers.emplace_back(view_of(run, *worker, in));
    const auto old_rank = run.recovery.ranks.find(worker->id);
    member.rank = old_rank == run.recovery.ranks.end() ? rank : old_rank->second;
    member.share = worker->share;
    view.global_batch += worker->share;
  }
  for (const auto& [id, worker] : run.roster.workers()) {
    if (!run.training.is_member(id)) view.workers.push_back(view_of(run, worker, in));
  }
  for (const Agent* agent : run.roster.agents_in_order()) view.agents.push_back(view_of(run, *agent));
  show_failures(run, view);
  view.new_members = run.probation.without_a_step(run.roster);
  if (run.roster.blamed_slots() > 0) view.start_failure = run.start_failures.newest;
  return view;
}

static void record_members(const Run& run, record::RunState& state) {
  state.members = run.training.members;
  for (WorkerId id : run.training.members) {
    const Worker* worker = run.roster.worker(id);
    state.shares.push_back(worker == nullptr ? 0 : worker->share);
  }
  state.finished.assign(run.end.finished.begin(), run.end.finished.end());
  state.learning_rate_factor = run.training.learning_rate_factor;
  state.synchronization = run.training.synchronization;
}

static void record_lease(const Run& run, record::RunState& state) {
  if (run.desired.lease.version == 0) return;
  state.lease_version = run.desired.lease.version;
  state.lease_slots = run.desired.lease.slots;
  state.lease_reason = run.desired.lease.reason;
  if (run.desired.lease.hold) state.lease_hold = true;
  if (run.desired.lease.moves) state.lease_moves = true;
  state.only_counts.emplace();
  state.only_slots.emplace();
  for (AgentId id : state.agents) {
    const std::vector<std::uint32_t>& only = run.roster.agent(id)->only;
    state.only_counts->push_back(static_cast<std::uint32_t>(only.size()));
    state.only_slots->insert(state.only_slots->end(), only.begin(), only.end());
  }
}

static void record_hosts(const Run& run, record::RunState& state) {
  for (const auto& [id, agent] : run.roster.agents()) {
    const bool drained = agent.drained() && run.desired.lease.version == 0;
    if (!drained && (agent.link == Link::kDown || agent.stopping)) continue;
    state.agents.push_back(id);
    state.hosts.push_back(agent.host);
    state.slots.push_back(agent.slots);
    if (agent.link == Link::kUp) state.connected.push_back(id);
    const bool left_out = run.desired.lease.version > 0 && !agent.offered;
    if (agent.drain || left_out) state.draining.push_back(id);
    if (drained) add(state.drained, id);
    if (agent.noticed) add(state.noticed, id);
  }
  record_lease(run, state);
}

static void record_workers(const Run& run, record::RunState& state) {
  for (const auto& [id, worker] : run.roster.workers()) {
    state.workers.push_back(id);
    state.worker_agents.push_back(worker.agent);
    state.worker_slots.push_back(worker.slot);
  }
}

// The open change, in the form of the records "abort", "prepare" and "commit".
static void record_change(const Run& run, record::RunState& state) {
  if (run.recovery.active()) {
    state.fence = run.recovery.fence;
    state.halted = run.recovery.living(run.roster);
  }
  if (run.change.stage != Stage::kPreparing && run.change.stage != Stage::kCommitted) return;
  state.plan = run.change.generation;
  state.committed = run.change.stage == Stage::kCommitted;
  state.plan_members = run.change.members;
  state.plan_shares = shares_of(run.change.plan);
  state.plan_factor = run.change.plan.learning_rate_factor;
  state.plan_synchronization = run.change.plan.synchronization;
  state.plan_first_step = run.recovery.active() ? run.recovery.resume_step + 1 : run.change.first_step;
}

Journal state_record(const Run& run) {
  record::RunState state;
  state.generation = run.training.generation;
  state.issued = run.training.issued;
  record_members(run, state);
  record_hosts(run, state);
  record_workers(run, state);
  record_change(run, state);
  for (const protocol::Fence& fence : run.training.lineage) {
    state.lineage.push_back(fence.generation);
    state.first_steps.push_back(fence.first_step);
  }
  state.target = run.desired.target;
  state.target_reason = run.desired.target_reason;
  if (run.desired.refused) {
    state.refused_size = run.desired.refused->size;
    state.refused_reason = run.desired.refused->reason;
  }
  for (const auto& [id, worker] : run.roster.workers()) {
    if (worker.is_first) state.first = id;
  }
  if (run.training.restarting) state.restarting = true;
  if (run.desired.held) state.held_ms = run.desired.hold_left_ms(run.out.now()).value_or(0);
  write_update(run.desired.update, state);
  state.last_agent = run.roster.last_agent();
  state.last_worker = run.roster.last_worker();
  if (run.takeover.unsettled) state.unsettled = true;
  return Journal{std::move(state), true};
}

}  // namespace elastictrain::core
