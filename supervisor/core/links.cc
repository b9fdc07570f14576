#include "supervisor/core/links.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string>

#include "supervisor/core/agent_watch.h"
#include "supervisor/core/change.h"
#include "supervisor/core/exit_text.h"
#include "supervisor/core/failure_judge.h"
#include "supervisor/core/host_health.h"
#include "supervisor/core/host_judge.h"
#include "supervisor/core/host_list.h"
#include "supervisor/core/outbox.h"
#include "supervisor/core/recovery.h"
#include "supervisor/core/run_end.h"
#include "supervisor/core/settings.h"
#include "supervisor/core/startup.h"
#include "supervisor/core/worker_control.h"

namespace elastictrain::core {

Links::Links(const RunSettings& settings, Roster& roster, Outbox& out, Startup& startup, Change& change,
             Recovery& recovery, RunEnd& end, HostHealth& health, WorkerControl& workers, FailureJudge& judge,
             HostJudge& host_judge, AgentWatch& agents)
    : settings_(settings),
      roster_(roster),
      out_(out),
      startup_(startup),
      change_(change),
      recovery_(recovery),
      end_(end),
      health_(health),
      workers_(workers),
      judge_(judge),
      host_judge_(host_judge),
      agents_(agents) {}

// Agent and workers may still run: they continue training, and nothing is decided before the failure detector or a
// survivor reports more.
void Links::cut_off(Agent& agent, const std::string& reason) {
  if (agent.cut_off) return;
  agent.cut_off = true;
  out_.journal(record::AgentCutOff{agent.host, agent.id, reason});
  agent.lost_reason = reason;
  if (change_.stage == Stage::kHalting && !recovery_.suspicion.empty()) doubt_others({});
}

// A member on another host lost its peers at the same time as we lost the agent: probably the host is gone, so the
// agent gets less time to reconnect.
void Links::doubt_others(AgentId witness) {
  for (auto& [id, agent] : roster_.agents()) {
    if (!agent.cut_off || id == witness || agent.reconnect_timer != 0) continue;
    agent.reconnect_timer = out_.arm({TimerKind::kReconnect, {}, id}, out_.now() + settings_.failures.reconnect_grace);
  }
}

void Links::reconnect_timed_out(AgentId id) {
  Agent* agent = roster_.agent(id);
  if (agent == nullptr || agent->link != Link::kUp || !agent->cut_off) return;
  agent->reconnect_timer = 0;
  agents_.lose_agent(*agent, agent->lost_reason);
}

// `living` are the workers that its agent still has.
void Links::come_back(Agent& agent, const std::vector<WorkerId>& living) {
  agent.cut_off = false;
  out_.cancel(agent.reconnect_timer);
  out_.journal(record::AgentBack{agent.host, agent.id});
  agents_.note_report(agent);
  if (agent.timer == 0) agents_.watch(agent);
  out_.look_again();
  const std::set<WorkerId> workers = agent.workers;
  for (WorkerId id : workers) {
    Worker& worker = *roster_.worker(id);
    const bool lives = std::find(living.begin(), living.end(), id) != living.end();
    if (lives) {
      resend(worker);
    } else if (!worker.greeted() && !worker.seated()) {
      // The order to start it was lost with the connection, or its exit is reported next and finds it gone.
      out_.journal(record::SpawnLost{id});
      workers_.remove(id);
    } else {
      // Its exit is reported by a separate event, unless that was lost too.
      out_.cancel(worker.timer);
      worker.timer = out_.arm({TimerKind::kVanished, id, {}}, out_.now() + settings_.failures.halt_timeout);
    }
  }
}

// Messages that arrived while no supervisor was connected.
void Links::resend(Worker& worker) {
  const WorkerId id = worker.id;
  if (worker.hung()) {
    workers_.end_for_good(worker);
  } else if (worker.stop_sent()) {
    out_.emit(StopWorker{id, static_cast<std::uint64_t>(settings_.grace.count())});
  } else if (worker.end_order == EndOrder::kDismiss) {
    out_.send({id}, protocol::Dismiss{"not needed"});
  } else if (recovery_.waiting.contains(id)) {
    out_.send({id}, protocol::Abort{recovery_.fence, recovery_.cause()});
  } else if (change_.stage == Stage::kPreparing && change_.waiting.contains(id)) {
    out_.send({id}, protocol::Prepare{change_.plan});
  } else if (change_.stage == Stage::kCommitted && change_.waiting.contains(id)) {
    out_.send({id}, protocol::Commit{change_.generation});
  }
}

void Links::vanished(const Worker& gone) {
  const Worker worker = gone;
  out_.journal(record::Vanished{worker.id, worker.host});
  workers_.remove(worker.id);
  if (worker.left() || worker.dying() || worker.finished()) return;
  const std::string what = "is gone, and its agent does not know how it ended";
  if (!worker.seated()) {
    workers_.drop_joiner(worker, what, Retry::kOnce);
    return;
  }
  judge_.lose_member({FailureClass::kInfrastructure, kStatusUnavailable, worker.host,
                      workers_.name_of(worker) + " " + what, "", false});
}

// Between attempts to start a first agent: a second, then two, each less up to a half, so that hosts behind one machine
// that limits its connections do not come back together. What is not expected to pass is tried like a host that cools
// down.
Millis Links::first_delay(const Agent& agent) const {
  if (!agent.awaited) return settings_.failures.cool_down;
  const Millis longest = settings_.failures.relaunch * (agent.attempts == 0 ? 1 : 2);
  const std::size_t spread = std::hash<std::string>()(agent.host + std::to_string(agent.attempts)) % 1000;
  return longest - longest * static_cast<std::int64_t>(spread) / 2000;
}

// A host that is still on the list is tried again, after a longer delay if it keeps failing.
void Links::schedule_relaunch(Agent& agent) {
  if (!agent.offered || agent.drain || end_.begun()) return;
  if (!startup_.spawned || (agent.awaited && agent.attempts * settings_.failures.relaunch < settings_.start_timeout)) {
    agent.timer = out_.arm({TimerKind::kRelaunch, {}, agent.id}, out_.now() + first_delay(agent));
    return;
  }
  host_judge_.blame({FailureClass::kInfrastructure, kStatusUnavailable, agent.host, agent.lost_reason, "", false});
  const Instant soon = out_.now() + settings_.failures.relaunch;
  const Instant when = std::max<Instant>(soon, health_.cooled_until(agent.host, out_.now()).value_or(soon));
  agent.timer = out_.arm({TimerKind::kRelaunch, {}, agent.id}, when);
}

void Links::relaunch(AgentId id) {
  Agent* lost = roster_.agent(id);
  if (lost == nullptr || lost->link != Link::kDown || !lost->offered || lost->drain || end_.begun()) return;
  const HostSlots host{lost->host, lost->slots, lost->only};
  const std::uint32_t order = lost->order;
  const bool awaited = lost->awaited;
  const std::uint32_t attempts = lost->attempts + 1;
  const std::string reason = lost->lost_reason;
  roster_.remove_agent(id);
  Agent& agent = roster_.add_agent(host.host, host.slots);
  agent.order = order;
  agent.again = true;
  agent.awaited = awaited;
  agent.attempts = attempts;
  agent.lost_reason = reason;
  agent.only = host.only;
  out_.journal(record::HostAgain{agent.host, agent.slots, agent.id, only_of(agent.only)});
  out_.emit(LaunchAgent{agent.id, agent.host, agent.slots});
}

}  // namespace elastictrain::core
