#include "supervisor/core/snapshot.h"

#include <algorithm>
#include <chrono>

#include "supervisor/core/change.h"
#include "supervisor/core/desired_state.h"
#include "supervisor/core/failure_judge.h"
#include "supervisor/core/host_health.h"
#include "supervisor/core/outbox.h"
#include "supervisor/core/recovery.h"
#include "supervisor/core/run_end.h"
#include "supervisor/core/settings.h"
#include "supervisor/core/startup.h"
#include "supervisor/core/swap_plan.h"
#include "supervisor/core/training.h"

namespace elastictrain::core {
namespace {

// A program whose processes have sent nothing for this long is shown as a running plain program.
constexpr Millis kPlainAfter{5'000};

// So many a program announces that ends by itself.
constexpr std::uint64_t kEndlessEpochs = std::uint64_t{1} << 40;

}  // namespace

Snapshot::Snapshot(const RunSettings& settings, const Roster& roster, const Outbox& out, const Training& training,
                   const Change& change, const Recovery& recovery, const DesiredState& desired, const Startup& startup,
                   const RunEnd& end, const HostHealth& health, const FailureJudge& judge)
    : settings_(settings),
      roster_(roster),
      out_(out),
      training_(training),
      change_(change),
      recovery_(recovery),
      desired_(desired),
      startup_(startup),
      end_(end),
      health_(health),
      judge_(judge) {}

RunPhase Snapshot::shown_phase() const {
  const RunPhase actual = phase();
  const bool plain = startup_.is_plain() && out_.now() - startup_.spawned_at >= kPlainAfter;
  return actual == RunPhase::kStarting && plain ? RunPhase::kRunning : actual;
}

Snapshot::InChange Snapshot::in_change() const {
  InChange in;
  in.planned = {change_.members.begin(), change_.members.end()};
  if (change_.stage == Stage::kCommitted) in.leaving = {change_.leavers.begin(), change_.leavers.end()};
  return in;
}

WorkerPhase Snapshot::phase_of(const Worker& worker, const InChange& in) const {
  if (worker.dying() || worker.left() || worker.finished()) return WorkerPhase::kLeaving;
  if (in.leaving.contains(worker.id)) return WorkerPhase::kLeaving;
  if (training_.is_member(worker.id)) return WorkerPhase::kMember;
  if (!worker.ready()) return WorkerPhase::kStarting;
  return in.planned.contains(worker.id) ? WorkerPhase::kJoining : WorkerPhase::kSpare;
}

WorkerView Snapshot::view_of(const Worker& worker, const InChange& in) const {
  WorkerView view;
  view.worker = worker.id;
  view.phase = phase_of(worker, in);
  view.agent = worker.agent;
  view.host = worker.host;
  view.slot = worker.slot;
  view.quiet_ms = worker.quiet_ms;
  view.heartbeat = worker.heartbeat;
  if (startup_.is_plain()) view.rank = worker.expected_rank;
  return view;
}

AgentPhase Snapshot::phase_of(const Agent& agent) const {
  const bool cools = health_.cooled_until(agent.host, out_.now()).has_value();
  if (agent.drained()) return agent.noticed ? AgentPhase::kLeft : AgentPhase::kDrained;
  if (agent.link == Link::kDown) return cools ? AgentPhase::kCooling : AgentPhase::kLost;
  if (agent.drain || agent.stopping || !agent.offered) return AgentPhase::kDraining;
  if (agent.link == Link::kLaunching) return AgentPhase::kLaunching;
  if (agent.cut_off) return AgentPhase::kReconnecting;
  if (agent.suspect) return AgentPhase::kSuspect;
  return cools ? AgentPhase::kCooling : AgentPhase::kUp;
}

AgentView Snapshot::view_of(const Agent& agent) const {
  return {agent.id,
          agent.host,
          agent.usable_slots(),
          phase_of(agent),
          static_cast<std::uint32_t>(agent.workers.size()),
          agent.last_seen,
          agent.link == Link::kDown,
          agent.warm,
          agent.link == Link::kDown ? agent.lost_reason : ""};
}

void Snapshot::show_failures(RunView& view) const {
  for (const FailureClass what :
       {FailureClass::kCrash, FailureClass::kHang, FailureClass::kPreemption, FailureClass::kInfrastructure}) {
    if (judge_.budget().total(what) == 0) continue;
    view.failures.push_back({class_name(what), judge_.budget().total(what),
                             static_cast<std::uint32_t>(judge_.budget().count(what, out_.now())),
                             judge_.budget().limit(what)});
  }
  for (const HostHealth::Cooled& host : health_.cooled(out_.now())) {
    const auto left = std::chrono::duration_cast<Millis>(host.until - out_.now());
    view.cooled_hosts.push_back({host.host, host.failures, static_cast<std::uint64_t>(left.count()), host.reason});
  }
}

// All workers have the same data.
void Snapshot::show_data(RunView& view) const {
  const auto found = std::find_if(roster_.workers().begin(), roster_.workers().end(),
                                  [](const auto& entry) { return entry.second.ready(); });
  if (found == roster_.workers().end()) return;
  const protocol::WorkerReady& facts = found->second.facts;
  view.epoch_samples = facts.sample_count;
  view.epochs = facts.epochs < kEndlessEpochs ? facts.epochs : 0;
  view.max_steps = facts.max_steps;
}

RunView Snapshot::view() const {
  RunView view;
  view.run_name = settings_.run_name;
  view.phase = shown_phase();
  view.generation = training_.generation;
  view.world_size = static_cast<std::uint32_t>(training_.members.size());
  if (startup_.is_plain()) view.world_size = startup_.first_size;
  view.asked_size = desired_.target;
  view.target_size = settings_.leased ? std::min(desired_.target, desired_.lease.slots) : desired_.target;
  if (settings_.leased) view.lease = desired_.lease;
  view.stands = desired_.lease.hold && recovery_.active() && change_.stage == Stage::kGathering;
  view.gathering = change_.stage == Stage::kGathering && !recovery_.active();
  view.batch = settings_.batch;
  view.start_ms = static_cast<std::uint64_t>(startup_.newest_start.count());
  view.base_batch = base_batch(settings_);
  if (desired_.refused) view.grow_refused = desired_.refused->reason;
  view.unmet = desired_.unmet;
  view.held = desired_.held.has_value();
  view.held_left_ms = desired_.hold_left_ms(out_.now());
  view.learning_rate_factor = training_.learning_rate_factor;
  view.topology = training_.topology;
  view.parents = training_.parents;
  view.synchronization = training_.synchronization;
  view.size_reason = training_.size_reason;
  if (training_.generation == 0 && startup_.spawned) {
    view.size_reason = training_.restarting ? "the run starts again" : "the program has not joined the run (yet)";
  }
  view.last_change = training_.last_change;
  show_data(view);
  const InChange in = in_change();
  for (std::uint32_t rank = 0; rank < training_.members.size(); ++rank) {
    const Worker* worker = roster_.worker(training_.members[rank]);
    if (worker == nullptr) continue;
    WorkerView& member = view.workers.emplace_back(view_of(*worker, in));
    const auto old_rank = recovery_.ranks.find(worker->id);
    member.rank = old_rank == recovery_.ranks.end() ? rank : old_rank->second;
    member.share = worker->share;
    view.global_batch += worker->share;
  }
  for (const auto& [id, worker] : roster_.workers()) {
    if (!training_.is_member(id)) view.workers.push_back(view_of(worker, in));
  }
  for (const Agent* agent : roster_.agents_in_order()) view.agents.push_back(view_of(*agent));
  show_failures(view);
  return view;
}

RunPhase Snapshot::phase() const {
  if (end_.over) return RunPhase::kEnded;
  if (end_.begun()) return RunPhase::kStopping;
  if (training_.generation == 0) return RunPhase::kStarting;
  return change_.stage == Stage::kIdle ? RunPhase::kRunning : RunPhase::kChanging;
}

}  // namespace elastictrain::core
