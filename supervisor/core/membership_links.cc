// The part of the state machine for connections to hosts that break and recover, and for lost hosts that are tried
// again.
#include <algorithm>

#include "supervisor/core/membership_impl.h"

namespace elastictrain::core {

// Agent and workers may still run: they continue training, and nothing is decided before the failure detector or a
// survivor reports more.
void Membership::Impl::cut_off(Agent& agent, const std::string& reason) {
  if (agent.cut_off) return;
  agent.cut_off = true;
  journal(record::AgentCutOff{agent.host, agent.id, reason});
  agent.lost_reason = reason;
  if (change_.stage == Stage::kHalting && !recovery_.suspicion.empty()) doubt_cut_off_agents({});
}

// A member on another host lost its peers at the same time as we lost the agent: probably the host is gone, so the
// agent gets less time to reconnect.
void Membership::Impl::doubt_cut_off_agents(AgentId witness) {
  for (auto& [id, agent] : roster_.agents()) {
    if (!agent.cut_off || id == witness || agent.reconnect_timer != 0) continue;
    agent.reconnect_timer = arm({TimerKind::kReconnect, {}, id}, now_ + settings_.failures.reconnect_grace);
  }
}

void Membership::Impl::reconnect_timed_out(AgentId id) {
  Agent* agent = roster_.agent(id);
  if (agent == nullptr || agent->link != Link::kUp || !agent->cut_off) return;
  agent->reconnect_timer = 0;
  lose_agent(*agent, agent->lost_reason);
}

// `living` are the workers that its agent still has.
void Membership::Impl::come_back(Agent& agent, const std::vector<WorkerId>& living) {
  agent.cut_off = false;
  cancel(agent.reconnect_timer);
  journal(record::AgentBack{agent.host, agent.id});
  heard(agent);
  if (agent.timer == 0) agent.timer = arm({TimerKind::kAgentLook, {}, agent.id}, detector_.watch(agent.id, now_));
  dirty_ = true;
  const std::set<WorkerId> workers = agent.workers;
  for (WorkerId id : workers) {
    Worker& worker = *roster_.worker(id);
    const bool lives = std::find(living.begin(), living.end(), id) != living.end();
    if (lives) {
      resend(worker);
    } else if (!worker.hello && !worker.seated) {
      // The order to start it was lost with the connection, or its exit is reported next and finds it gone.
      journal(record::SpawnLost{id});
      bury(id);
    } else {
      // Its exit is reported by a separate event, unless that was lost too.
      cancel(worker.timer);
      worker.timer = arm({TimerKind::kVanished, id, {}}, now_ + settings_.failures.halt_timeout);
    }
  }
}

// Messages that arrived while no supervisor was connected.
void Membership::Impl::resend(Worker& worker) {
  const WorkerId id = worker.id;
  if (worker.hung) {
    end_for_good(worker);
  } else if (worker.stop_sent) {
    emit(StopWorker{id, static_cast<std::uint64_t>(settings_.grace.count())});
  } else if (worker.dismissed) {
    send({id}, protocol::Dismiss{"not needed"});
  } else if (recovery_.waiting.contains(id)) {
    send({id}, protocol::Abort{recovery_.fence, recovery_cause()});
  } else if (change_.stage == Stage::kPreparing && change_.waiting.contains(id)) {
    send({id}, protocol::Prepare{plan_});
  } else if (change_.stage == Stage::kCommitted && change_.waiting.contains(id)) {
    send({id}, protocol::Commit{change_.generation});
  }
}

void Membership::Impl::vanished(const Worker& gone) {
  const Worker worker = gone;
  journal(record::Vanished{worker.id, worker.host});
  bury(worker.id);
  if (worker.left || worker.dying || worker.finished) return;
  const std::string what = "is gone, and its agent does not know how it ended";
  if (!worker.seated) {
    drop_joiner(worker, what, Retry::kOnce);
    return;
  }
  lose_member(
      {FailureClass::kInfrastructure, kStatusUnavailable, worker.host, name_of(worker) + " " + what, "", false});
}

// A host that is still on the list is tried again, after a longer delay if it keeps failing.
void Membership::Impl::schedule_relaunch(Agent& agent) {
  if (!agent.offered || agent.drain || end_.mode != EndMode::kNone || !spawned_) return;
  blame_host({FailureClass::kInfrastructure, kStatusUnavailable, agent.host, agent.lost_reason, "", false});
  const Instant soon = now_ + settings_.failures.relaunch;
  const Instant when = std::max<Instant>(soon, health_.cooled_until(agent.host, now_).value_or(soon));
  agent.timer = arm({TimerKind::kRelaunch, {}, agent.id}, when);
}

void Membership::Impl::relaunch(AgentId id) {
  Agent* lost = roster_.agent(id);
  if (lost == nullptr || lost->link != Link::kDown || !lost->offered || end_.mode != EndMode::kNone) return;
  const HostSlots host{lost->host, lost->slots};
  const std::uint32_t order = lost->order;
  roster_.remove_agent(id);
  Agent& agent = roster_.add_agent(host.host, host.slots);
  agent.order = order;
  agent.again = true;
  journal(record::HostAgain{agent.host, agent.slots, agent.id});
  emit(LaunchAgent{agent.id, agent.host, agent.slots});
}

}  // namespace elastictrain::core
