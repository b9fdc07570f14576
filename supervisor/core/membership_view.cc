// The part of the state machine that builds its snapshot for display.
#include "supervisor/core/membership_impl.h"

namespace elastictrain::core {

// A program whose processes have sent nothing for this long is shown as a running plain program.
constexpr Millis kPlainAfter{5'000};

RunPhase Membership::Impl::shown_phase() const {
  const RunPhase actual = phase();
  const bool plain = spawned_ && !elastic_ && now_ - spawned_at_ >= kPlainAfter;
  return actual == RunPhase::kStarting && plain ? RunPhase::kRunning : actual;
}

Membership::Impl::InChange Membership::Impl::in_change() const {
  InChange in;
  in.planned = {change_.members.begin(), change_.members.end()};
  if (change_.stage == Stage::kCommitted) in.leaving = {change_.leavers.begin(), change_.leavers.end()};
  return in;
}

WorkerPhase Membership::Impl::phase_of(const Worker& worker, const InChange& in) const {
  if (worker.dying || worker.left || worker.finished) return WorkerPhase::kLeaving;
  if (in.leaving.contains(worker.id)) return WorkerPhase::kLeaving;
  if (is_member(worker.id)) return WorkerPhase::kMember;
  if (!worker.ready) return WorkerPhase::kStarting;
  return in.planned.contains(worker.id) ? WorkerPhase::kJoining : WorkerPhase::kSpare;
}

WorkerView Membership::Impl::view_of(const Worker& worker, const InChange& in) const {
  WorkerView view;
  view.worker = worker.id;
  view.phase = phase_of(worker, in);
  view.agent = worker.agent;
  view.host = worker.host;
  view.slot = worker.slot;
  view.quiet_ms = worker.quiet_ms;
  view.heartbeat = worker.heartbeat;
  if (spawned_ && !elastic_) view.rank = worker.expected_rank;
  return view;
}

AgentView Membership::Impl::view_of(const Agent& agent) const {
  AgentView view{
      agent.id,        agent.host, agent.slots, AgentPhase::kUp, static_cast<std::uint32_t>(agent.workers.size()),
      agent.last_heard};
  if (agent.link == Link::kDown) {
    view.phase = AgentPhase::kDown;
  } else if (agent.drain || agent.stopping || !agent.offered) {
    view.phase = AgentPhase::kDraining;
  } else if (agent.link == Link::kLaunching) {
    view.phase = AgentPhase::kLaunching;
  } else if (agent.suspect || agent.cut_off) {
    view.phase = AgentPhase::kSuspect;
  }
  return view;
}

void Membership::Impl::show_failures(RunView& view) const {
  for (const FailureClass what :
       {FailureClass::kCrash, FailureClass::kHang, FailureClass::kPreemption, FailureClass::kInfrastructure}) {
    if (budget_.total(what) == 0) continue;
    view.failures.push_back({class_name(what), budget_.total(what),
                             static_cast<std::uint32_t>(budget_.count(what, now_)), budget_.limit(what)});
  }
  for (const HostHealth::Cooled& host : health_.cooled(now_)) {
    const auto left = std::chrono::duration_cast<Millis>(host.until - now_);
    view.cooled_hosts.push_back({host.host, host.failures, static_cast<std::uint64_t>(left.count()), host.reason});
  }
}

RunView Membership::Impl::view() const {
  RunView view;
  view.run_name = settings_.run_name;
  view.phase = shown_phase();
  view.generation = generation_;
  view.world_size = static_cast<std::uint32_t>(members_.size());
  if (spawned_ && !elastic_) view.world_size = first_size_;
  view.target_size = target_;
  view.learning_rate_factor = learning_rate_factor_;
  view.topology = topology_;
  view.fathers = fathers_;
  view.synchronization = synchronization_;
  view.size_reason = size_reason_;
  if (generation_ == 0 && spawned_) {
    view.size_reason = restarting_ ? "the run starts again" : "the program has not joined the run (yet)";
  }
  view.last_change = last_change_;
  const InChange in = in_change();
  for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
    const Worker* worker = roster_.worker(members_[rank]);
    if (worker == nullptr) continue;
    WorkerView& member = view.workers.emplace_back(view_of(*worker, in));
    const auto old_rank = recovery_.ranks.find(worker->id);
    member.rank = old_rank == recovery_.ranks.end() ? rank : old_rank->second;
    member.share = worker->share;
    view.global_batch += worker->share;
  }
  for (const auto& [id, worker] : roster_.workers()) {
    if (!is_member(id)) view.workers.push_back(view_of(worker, in));
  }
  for (const Agent* agent : roster_.agents_in_order()) view.agents.push_back(view_of(*agent));
  show_failures(view);
  return view;
}

}  // namespace elastictrain::core
