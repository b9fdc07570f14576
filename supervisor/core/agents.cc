#include "supervisor/core/agents.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "supervisor/core/ending.h"
#include "supervisor/core/hosts.h"
#include "supervisor/core/losses.h"
#include "supervisor/core/pure/message_text.h"
#include "supervisor/core/recovering.h"
#include "supervisor/core/starting.h"
#include "supervisor/core/workers.h"
#include "supervisor/protocol/check.h"
#include "supervisor/protocol/display_text.h"

namespace elastictrain::core {

static void watch_agent(Run& run, Agent& agent) {
  agent.timer = run.out.arm({TimerKind::kAgentLook, {}, agent.id}, run.agent_detector.watch(agent.id, run.out.now()));
}

static void note_report(Run& run, Agent& agent) {
  if (run.out.now() - agent.last_seen >= out_of_sight_after(run.settings)) agent.seen_again = run.out.now();
  agent.last_seen = run.out.now();
  if (!run.agent_detector.on_message(agent.id, run.out.now())) return;
  agent.suspect = false;
  run.out.journal(record::AgentHealthy{agent.host, agent.id});
}

// Messages that arrived while no supervisor was connected.
static void resend(Run& run, Worker& worker) {
  const WorkerId id = worker.id;
  if (worker.hung()) {
    end_for_good(run, worker);
  } else if (worker.stop_sent()) {
    run.out.emit(StopWorker{id, static_cast<std::uint64_t>(run.settings.grace.count())});
  } else if (worker.end_order == EndOrder::kDismiss) {
    run.out.send({id}, protocol::Dismiss{"not needed"});
  } else if (run.recovery.waiting.contains(id)) {
    run.out.send({id}, protocol::Abort{run.recovery.fence, run.recovery.cause()});
  } else if (run.change.stage == Stage::kPreparing && run.change.waiting.contains(id)) {
    run.out.send({id}, protocol::Prepare{run.change.plan});
  } else if (run.change.stage == Stage::kCommitted && run.change.waiting.contains(id)) {
    run.out.send({id}, protocol::Commit{run.change.generation});
  }
}

// `living` are the workers that its agent still has.
static void agent_came_back(Run& run, Agent& agent, const std::vector<WorkerId>& living) {
  agent.cut_off = false;
  run.out.cancel(agent.reconnect_timer);
  run.out.journal(record::AgentBack{agent.host, agent.id});
  note_report(run, agent);
  if (agent.timer == 0) watch_agent(run, agent);
  run.out.look_again();
  const std::set<WorkerId> workers = agent.workers;
  for (WorkerId id : workers) {
    Worker& worker = *run.roster.worker(id);
    const bool lives = std::find(living.begin(), living.end(), id) != living.end();
    if (lives) {
      resend(run, worker);
    } else if (!worker.greeted() && !worker.assigned()) {
      // The order to start it was lost with the connection, or its exit is reported next and finds it gone.
      run.out.journal(record::SpawnLost{id});
      remove_worker(run, id);
    } else {
      // Its exit is reported by a separate event, unless that was lost too.
      run.out.cancel(worker.timer);
      worker.timer = run.out.arm({TimerKind::kVanished, id, {}}, run.out.now() + run.settings.failures.halt_timeout);
    }
  }
}

static void connected(Run& run, const AgentConnected& event) {
  Agent* agent = run.roster.agent(event.agent);
  const bool unwanted = agent == nullptr || agent->stopping || agent->link == Link::kDown;
  const bool known = !unwanted && agent->link == Link::kUp;
  if (unwanted || (run.end.begun() && !known)) {
    if (agent != nullptr && !unwanted) {
      agent->link = Link::kUp;
      stop_agent(run, *agent);
    } else {
      run.out.emit(StopAgent{event.agent, static_cast<std::uint64_t>(run.settings.grace.count())});
    }
    return;
  }
  if (agent->link == Link::kUp) {
    agent_came_back(run, *agent, event.workers);
    return;
  }
  agent->link = Link::kUp;
  agent->awaited = false;
  agent->last_seen = run.out.now();
  run.out.journal(record::AgentConnected{agent->host, agent->id});
  watch_agent(run, *agent);
  run.out.look_again();
}

void on(Run& run, const AgentConnected& event) {
  connected(run, event);
  on(run, WarmReported{event.agent, event.warm});
}

void on(Run& run, const AgentReported& event) {
  Agent* agent = run.roster.agent(event.agent);
  if (agent == nullptr || agent->link != Link::kUp) return;
  note_report(run, *agent);
  for (const protocol::WorkerSample& sample : event.report.workers) {
    Worker* worker = run.roster.worker(sample.worker);
    if (worker == nullptr || worker->agent != agent->id) continue;
    worker->quiet_ms = sample.quiet_ms;
    if (sample.heartbeat.sequence < worker->heartbeat.sequence) continue;
    worker->take(sample.heartbeat);
    note_progress(run, sample.heartbeat);
    note_heartbeat(run, sample.worker, sample.heartbeat);
    for (const HangFinding& finding : run.hangs.on_sample(sample, run.out.now())) act_on_hang(run, finding);
  }
}

void look_at_agent(Run& run, AgentId id) {
  Agent* agent = run.roster.agent(id);
  if (agent == nullptr || agent->link != Link::kUp) return;
  agent->timer = 0;
  const FailureDetector::Look look = run.agent_detector.look(id, run.out.now());
  const auto silence = static_cast<std::uint64_t>(run.agent_detector.silence(id, run.out.now()).count());
  if (look.verdict == Verdict::kDead) {
    const std::string why = agent->cut_off ? " (" + agent->lost_reason + ")" : "";
    if (!agent->cut_off && !agent->stopping) {
      run.out.emit(StopAgent{id, static_cast<std::uint64_t>(run.settings.grace.count())});
    }
    if (!agent->cut_off) run.silent_agents.insert(id);
    lose_agent(run, *agent, "no report arrived for " + protocol::duration_text(Millis(silence)) + why);
    return;
  }
  if (look.changed) {
    agent->suspect = true;
    run.out.journal(record::AgentSuspect{agent->host, silence});
  }
  agent->timer = run.out.arm({TimerKind::kAgentLook, {}, id}, look.next);
}

// Agent and workers may still run: they continue training, and nothing is decided before the failure detector or a
// survivor reports more.
static void cut_off_agent(Run& run, Agent& agent, const std::string& reason) {
  if (agent.cut_off) return;
  agent.cut_off = true;
  run.out.journal(record::AgentCutOff{agent.host, agent.id, reason});
  agent.lost_reason = reason;
  if (run.change.stage == Stage::kHalting && !run.recovery.suspicion.empty()) doubt_others(run, {});
}

void on(Run& run, const AgentLost& event) {
  if (run.silent_agents.erase(event.agent) > 0) run.out.look_again();
  Agent* agent = run.roster.agent(event.agent);
  if (agent == nullptr || agent->link == Link::kDown) return;
  const bool may_return = event.evidence == LossEvidence::kConnection && agent->link == Link::kUp && !agent->stopping;
  if (may_return && run.end.mode != EndMode::kNow) {
    cut_off_agent(run, *agent, event.reason);
    return;
  }
  agent->awaited = event.evidence == LossEvidence::kNotYet && agent->link == Link::kLaunching;
  lose_agent(run, *agent, event.reason);
}

static void lose_workers(Run& run, Agent& agent, const std::string& reason) {
  const std::set<WorkerId> workers = agent.workers;
  const bool plain = run.startup.is_plain();
  std::vector<std::string> failed;
  for (WorkerId id : workers) {
    const Worker& worker = *run.roster.worker(id);
    const bool over = worker.finished() || worker.left() || worker.dying();
    const bool counts = worker.assigned() || plain;
    if (!over && counts) failed.push_back(name_of(run, worker));
    if (!over && !counts) {
      run.out.journal(record::Dropped{id, "host " + agent.host + " is lost"});
    }
    remove_worker(run, id);
  }
  if (failed.empty()) return;
  std::string list;
  for (const std::string& name : failed) list += (list.empty() ? "" : ", ") + name;
  const std::string text = "host " + agent.host + " is lost with " + list + ": " + reason;
  const std::string advice = ". Check the host and its network, then start the run again.";
  if (plain) {
    if (restart_plain(run, text)) return;
    fail_run(run, 69, text + advice);
    return;
  }
  lose_member(run, {FailureClass::kInfrastructure, kStatusUnavailable, agent.host, text, "", false});
}

// Between attempts to start a first agent: a second, then two, each less up to a half, so that hosts behind one machine
// that limits its connections do not come back together. What is not expected to pass is tried like a host that cools
// down.
static Millis first_delay(const Run& run, const Agent& agent) {
  if (!agent.awaited) return run.settings.failures.cool_down;
  const Millis longest = run.settings.failures.relaunch * (agent.attempts == 0 ? 1 : 2);
  const std::size_t spread = std::hash<std::string>()(agent.host + std::to_string(agent.attempts)) % 1000;
  return longest - longest * static_cast<std::int64_t>(spread) / 2000;
}

// A host that is still on the list is tried again, after a longer delay if it keeps failing.
static void schedule_relaunch(Run& run, Agent& agent) {
  if (!agent.offered || agent.drain || run.end.begun()) return;
  if (!run.startup.spawned ||
      (agent.awaited && agent.attempts * run.settings.failures.relaunch < run.settings.start_timeout)) {
    agent.timer = run.out.arm({TimerKind::kRelaunch, {}, agent.id}, run.out.now() + first_delay(run, agent));
    return;
  }
  blame_host(run, {FailureClass::kInfrastructure, kStatusUnavailable, agent.host, agent.lost_reason, "", false});
  const Instant soon = run.out.now() + run.settings.failures.relaunch;
  const Instant when = std::max<Instant>(soon, run.health.cooled_until(agent.host, run.out.now()).value_or(soon));
  agent.timer = run.out.arm({TimerKind::kRelaunch, {}, agent.id}, when);
}

void lose_agent(Run& run, Agent& agent, const std::string& reason) {
  const bool is_told = agent.link == Link::kLaunching && agent.lost_reason == reason;  // of an earlier attempt
  const bool expected = agent.stopping && agent.workers.empty();
  const bool was_launching = agent.link == Link::kLaunching;
  agent.link = Link::kDown;
  agent.cut_off = false;
  agent.lost_reason = reason;
  run.out.cancel(agent.timer);
  run.out.cancel(agent.reconnect_timer);
  run.agent_detector.forget(agent.id);
  run.out.look_again();
  if (expected) {
    run.out.journal(record::AgentEnded{agent.host, agent.id, reason});
  } else {
    run.out.journal(record::AgentLost{agent.host, agent.id, reason});
  }
  const bool costs_members = std::any_of(agent.workers.begin(), agent.workers.end(),
                                         [&](WorkerId id) { return run.roster.worker(id)->trains(); });
  if (!expected && !costs_members && !run.end.begun() && !is_told) {
    const char* what = was_launching ? " could not be used: " : " is lost: ";
    const char* next = agent.awaited ? "; it is tried again" : "";
    run.out.tell(Tell::Level::kWarning, "host " + agent.host + what + reason + next);
  }
  lose_workers(run, agent, reason);
  if (!agent.offered) {
    run.roster.remove_agent(agent.id);
  } else if (!expected) {
    schedule_relaunch(run, agent);
  }
}

// A member on another host lost its peers at the same time as we lost the agent: probably the host is gone, so the
// agent gets less time to reconnect.
void doubt_others(Run& run, AgentId witness) {
  for (auto& [id, agent] : run.roster.agents()) {
    if (!agent.cut_off || id == witness || agent.reconnect_timer != 0) continue;
    agent.reconnect_timer =
        run.out.arm({TimerKind::kReconnect, {}, id}, run.out.now() + run.settings.failures.reconnect_grace);
  }
}

void reconnect_timed_out(Run& run, AgentId id) {
  Agent* agent = run.roster.agent(id);
  if (agent == nullptr || agent->link != Link::kUp || !agent->cut_off) return;
  agent->reconnect_timer = 0;
  lose_agent(run, *agent, agent->lost_reason);
}

void worker_vanished(Run& run, const Worker& gone) {
  const Worker worker = gone;
  run.out.journal(record::Vanished{worker.id, worker.host});
  remove_worker(run, worker.id);
  if (worker.left() || worker.dying() || worker.finished()) return;
  const std::string what = "is gone, and its agent does not know how it ended";
  if (!worker.assigned()) {
    drop_joiner(run, worker, what, Retry::kOnce);
    return;
  }
  lose_member(run, {FailureClass::kInfrastructure, kStatusUnavailable, worker.host, name_of(run, worker) + " " + what,
                    "", false});
}

void relaunch_host(Run& run, AgentId id) {
  Agent* lost = run.roster.agent(id);
  if (lost == nullptr || lost->link != Link::kDown || !lost->offered || lost->drain || run.end.begun()) return;
  const HostSlots host{lost->host, lost->slots, lost->only};
  const std::uint32_t order = lost->order;
  const bool awaited = lost->awaited;
  const std::uint32_t attempts = lost->attempts + 1;
  const std::string reason = lost->lost_reason;
  run.roster.remove_agent(id);
  Agent& agent = run.roster.add_agent(host.host, host.slots);
  agent.order = order;
  agent.again = true;
  agent.awaited = awaited;
  agent.attempts = attempts;
  agent.lost_reason = reason;
  agent.only = host.only;
  run.out.journal(record::HostAgain{agent.host, agent.slots, agent.id, only_of(agent.only)});
  run.out.emit(LaunchAgent{agent.id, agent.host, agent.slots});
}

// Generations whose records were lost with the machine, perhaps that of a supervisor before the former one: where they
// began says the account of their workers.
static void fence_lost_generations(Run& run, const Resumed& event) {
  std::map<Generation, Step> began;
  for (const auto& [worker, audit] : event.audits) {
    if (audit.from_checkpoint) continue;
    for (const protocol::AuditStep& step : audit.steps) {
      const auto [first, is_new] = began.try_emplace(step.generation, step.step);
      if (!is_new) first->second = std::min(first->second, step.step);
    }
  }
  const std::vector<protocol::Fence>& lineage = run.training.lineage;
  if (!lineage.empty()) began.erase(began.begin(), began.upper_bound(lineage.front().generation));
  for (const protocol::Fence& known : lineage) began.erase(known.generation);
  for (const auto& [generation, step] : began) fence_accounts(run, {generation, step});
}

static void restore_roster(Run& run, const Resumed& event) {
  run.roster.ids_used(event.last_agent, static_cast<std::uint32_t>(event.last_worker));
  std::uint32_t order = 0;
  for (const Resumed::AgentPlace& place : event.agents) {
    Agent& agent = run.roster.restore_agent(place.agent, place.host, place.slots);
    agent.order = order++;
    agent.only = place.only;
    agent.drain = place.drain && !run.settings.leased;
    agent.noticed = place.noticed;
    agent.offered = !place.drain || !run.settings.leased;  // the next lease may contain it again
    // There is no agent to wait for.
    if (place.drained) {
      agent.link = Link::kDown;
      continue;
    }
    agent.link = Link::kUp;
    agent.cut_off = true;
    agent.last_seen = run.out.now();
    agent.lost_reason = "it did not come back within " + protocol::duration_text(run.settings.resume_timeout);
    agent.reconnect_timer =
        run.out.arm({TimerKind::kReconnect, {}, agent.id}, run.out.now() + run.settings.resume_timeout);
  }
  for (const Resumed::WorkerPlace& place : event.workers) {
    if (run.roster.agent(place.agent) == nullptr) continue;
    Worker& worker = run.roster.restore_worker(place.worker, {place.agent, place.slot});
    if (run.end.finished.contains(place.worker)) worker.assignment = Assignment::kFinished;
    if (place.left) {
      worker.assignment = Assignment::kLeft;
      expect_exit(run, worker);
    }
    worker.is_first =
        event.first ? place.worker == *event.first : !event.members.empty() && place.worker == event.members.front();
    worker.may_lead = worker.is_first && run.settings.keeps_first;
  }
  run.startup.plain_restarts = event.plain_restarts;
  run.startup.spawned = !run.roster.workers().empty();
  run.startup.hosts_known = run.startup.spawned;
  run.startup.expired = run.startup.spawned;
  run.startup.spawned_at = run.out.now();
  run.startup.first_size = static_cast<std::uint32_t>(run.roster.workers().size());
  if (run.startup.spawned && run.settings.last_call != Millis{0}) {
    run.out.arm({TimerKind::kFixed, {}, {}}, run.out.now() + run.settings.ready_timeout);
  }
}

static void restore_generation(Run& run, const Resumed& event) {
  ET_CHECK(run.training.issued == 0, "a run is taken over before it issues a number");
  run.training.issued = event.issued;
  run.training.lineage = event.lineage;
  for (const protocol::Fence& fence : run.training.lineage) fence_accounts(run, fence);
  run.training.learning_rate_factor = event.learning_rate_factor;
  run.training.synchronization = event.synchronization;
  run.takeover.unsettled = event.unsettled;
  std::vector<WorkerId> assigned;
  std::set<WorkerId> once;
  const auto assignment = [&](WorkerId id, std::uint32_t share) {
    Worker* worker = run.roster.worker(id);
    if (worker == nullptr || worker->left()) {
      // Its end was recorded, but not the consequence; if it had finished there is none.
      run.takeover.unsettled = run.takeover.unsettled || !run.end.finished.contains(id);
      return;
    }
    if (!once.insert(id).second) return;
    worker->take_assignment();
    worker->share = share;
    assigned.push_back(id);
  };
  for (std::size_t rank = 0; rank < event.members.size(); ++rank) {
    assignment(event.members[rank], rank < event.shares.size() ? event.shares[rank] : 0);
  }
  for (WorkerId id : event.unsettled_members) assignment(id, 0);
  run.training.generation = assigned.empty() ? 0 : event.generation;
  run.training.restarting = assigned.empty() && (event.restarting || !run.training.lineage.empty());
  run.startup.elastic = run.training.generation != 0 || !assigned.empty() || run.training.restarting;
  run.startup.spawned = run.startup.spawned || run.training.restarting;
  run.training.size_reason = "the run was taken over";
  run.training.set_members(std::move(assigned));
  // A run of a cluster has its hosts, even if the cluster does not repeat its lease.
  const bool begins = run.settings.leased && !run.startup.spawned && !run.roster.agents().empty();
  if (begins && run.desired.lease.slots >= run.settings.min_workers) {
    run.startup.hosts_known = true;
    run.startup.timer = run.out.arm({TimerKind::kStart, {}, {}}, run.out.now() + run.settings.start_timeout);
  }
  // Also where no worker was started yet: none can be before its agent is back. One that was being launched may have
  // ended with the former supervisor, and is launched again.
  run.takeover.waiting = !run.roster.agents().empty();
  for (auto& [id, agent] : run.roster.agents()) agent.awaited = !run.startup.spawned && agent.link == Link::kUp;
  run.hangs.assignment(run.training.generation, run.roster.unfinished(run.training.members));
}

void on(Run& run, const Resumed& event) {
  if (run.startup.hosts_known || run.training.generation != 0) return;
  run.end.finished = {event.finished.begin(), event.finished.end()};
  run.desired.lease = event.lease;
  restore_roster(run, event);
  restore_generation(run, event);
  run.desired.target = event.target;
  run.desired.target_reason = event.target_reason;
  apply_update(run, event.plan_update);
  run.desired.refused = event.refused;
  if (event.hold) hold_size(run, *event.hold);
  fence_lost_generations(run, event);
  for (const auto& [worker, audit] : event.audits) record_account(run, worker, audit);
  run.invariants.resume(run.training.generation, run.training.issued,
                        WorkerId{static_cast<std::uint32_t>(event.last_worker)});
  const auto agents = static_cast<std::size_t>(
      std::count_if(event.agents.begin(), event.agents.end(), [](const auto& place) { return !place.drained; }));
  run.out.journal(
      record::TakenOver{run.training.generation, agents, run.roster.workers().size(), run.takeover.unsettled});
  const bool anybody = agents > 0 || !run.roster.workers().empty();
  if (anybody)
    run.out.tell(Tell::Level::kInfo, "taking the run over: " + counted(run.roster.workers().size(), "worker") + " on " +
                                         counted(agents, "host") + ", generation " +
                                         std::to_string(run.training.generation));
  if (!run.end.finished.empty()) member_finished(run);
  run.out.look_again();
}

void advance_takeover(Run& run) {
  const bool waits = std::any_of(run.roster.agents().begin(), run.roster.agents().end(),
                                 [](const auto& entry) { return entry.second.cut_off; });
  if (waits) return;
  run.takeover.waiting = false;
  run.out.look_again();
  for (auto& [id, worker] : run.roster.workers()) {
    if (!worker.ready() && !worker.assigned() && !worker.dying() && run.startup.elastic && worker.timer == 0)
      expect_ready(run, worker);
  }
  const bool over = !run.end.finished.empty() && run.roster.nobody_trains();
  const bool broken = std::exchange(run.takeover.unsettled, false) && !run.training.members.empty() &&
                      !run.recovery.active_or_wanted() && !over;
  run.out.journal(record::AllBack{run.training.generation, run.roster.workers().size()});
  if (broken) want_recovery(run, "the supervisor was replaced in the middle of a change");
}

}  // namespace elastictrain::core
