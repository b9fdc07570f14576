#include "supervisor/core/agent_watch.h"

#include <algorithm>

#include "supervisor/core/ending.h"
#include "supervisor/core/exit_text.h"
#include "supervisor/core/failure_judge.h"
#include "supervisor/core/hang_detector.h"
#include "supervisor/core/hang_judge.h"
#include "supervisor/core/host_list.h"
#include "supervisor/core/links.h"
#include "supervisor/core/newcomer_judge.h"
#include "supervisor/core/outbox.h"
#include "supervisor/core/plain_restart.h"
#include "supervisor/core/run_end.h"
#include "supervisor/core/settings.h"
#include "supervisor/core/startup.h"
#include "supervisor/core/worker_control.h"
#include "supervisor/protocol/duration_text.h"

namespace elastictrain::core {

AgentWatch::AgentWatch(const RunSettings& settings, Roster& roster, Outbox& out, Startup& startup, RunEnd& end,
                       HangDetector& hangs, WorkerControl& workers, FailureJudge& judge, HangJudge& hang_judge,
                       Ending& ending, HostList& hosts, Links& links, PlainRestart& plain, NewcomerJudge& newcomers)
    : settings_(settings),
      roster_(roster),
      out_(out),
      startup_(startup),
      end_(end),
      hangs_(hangs),
      workers_(workers),
      judge_(judge),
      hang_judge_(hang_judge),
      ending_(ending),
      hosts_(hosts),
      links_(links),
      plain_(plain),
      newcomers_(newcomers),
      detector_(settings.suspect, settings.dead) {}

void AgentWatch::on(const AgentConnected& event) {
  Agent* agent = roster_.agent(event.agent);
  const bool unwanted = agent == nullptr || agent->stopping || agent->link == Link::kDown;
  const bool known = !unwanted && agent->link == Link::kUp;
  if (unwanted || (end_.begun() && !known)) {
    if (agent != nullptr && !unwanted) {
      agent->link = Link::kUp;
      hosts_.stop_agent(*agent);
    } else {
      out_.emit(StopAgent{event.agent, static_cast<std::uint64_t>(settings_.grace.count())});
    }
    return;
  }
  if (agent->link == Link::kUp) {
    links_.come_back(*agent, event.workers);
    return;
  }
  agent->link = Link::kUp;
  agent->awaited = false;
  agent->last_seen = out_.now();
  out_.journal(record::AgentConnected{agent->host, agent->id});
  watch(*agent);
  out_.look_again();
}

void AgentWatch::on(const AgentReported& event) {
  Agent* agent = roster_.agent(event.agent);
  if (agent == nullptr || agent->link != Link::kUp) return;
  note_report(*agent);
  for (const protocol::WorkerSample& sample : event.report.workers) {
    Worker* worker = roster_.worker(sample.worker);
    if (worker == nullptr || worker->agent != agent->id) continue;
    worker->quiet_ms = sample.quiet_ms;
    if (sample.heartbeat.sequence < worker->heartbeat.sequence) continue;
    worker->take(sample.heartbeat);
    judge_.note_progress(sample.heartbeat);
    newcomers_.take(sample.worker, sample.heartbeat);
    for (const HangFinding& finding : hangs_.on_sample(sample, out_.now())) hang_judge_.act_on(finding);
  }
}

void AgentWatch::note_report(Agent& agent) {
  agent.last_seen = out_.now();
  if (!detector_.on_message(agent.id, out_.now())) return;
  agent.suspect = false;
  out_.journal(record::AgentHealthy{agent.host, agent.id});
}

void AgentWatch::look_at(AgentId id) {
  Agent* agent = roster_.agent(id);
  if (agent == nullptr || agent->link != Link::kUp) return;
  agent->timer = 0;
  const FailureDetector::Look look = detector_.look(id, out_.now());
  const auto silence = static_cast<std::uint64_t>(detector_.silence(id, out_.now()).count());
  if (look.verdict == Verdict::kDead) {
    const std::string why = agent->cut_off ? " (" + agent->lost_reason + ")" : "";
    if (!agent->cut_off && !agent->stopping) {
      out_.emit(StopAgent{id, static_cast<std::uint64_t>(settings_.grace.count())});
    }
    if (!agent->cut_off) silent_.insert(id);
    lose_agent(*agent, "no report arrived for " + protocol::duration_text(Millis(silence)) + why);
    return;
  }
  if (look.changed) {
    agent->suspect = true;
    out_.journal(record::AgentSuspect{agent->host, silence});
  }
  agent->timer = out_.arm({TimerKind::kAgentLook, {}, id}, look.next);
}

void AgentWatch::on(const AgentLost& event) {
  if (silent_.erase(event.agent) > 0) out_.look_again();
  Agent* agent = roster_.agent(event.agent);
  if (agent == nullptr || agent->link == Link::kDown) return;
  const bool may_return = event.evidence == LossEvidence::kConnection && agent->link == Link::kUp && !agent->stopping;
  if (may_return && end_.mode != EndMode::kNow) {
    links_.cut_off(*agent, event.reason);
    return;
  }
  agent->awaited = event.evidence == LossEvidence::kNotYet && agent->link == Link::kLaunching;
  lose_agent(*agent, event.reason);
}

void AgentWatch::lose_agent(Agent& agent, const std::string& reason) {
  const bool is_told = agent.link == Link::kLaunching && agent.lost_reason == reason;  // of an earlier attempt
  const bool expected = agent.stopping && agent.workers.empty();
  const bool was_launching = agent.link == Link::kLaunching;
  agent.link = Link::kDown;
  agent.cut_off = false;
  agent.lost_reason = reason;
  out_.cancel(agent.timer);
  out_.cancel(agent.reconnect_timer);
  detector_.forget(agent.id);
  out_.look_again();
  if (expected) {
    out_.journal(record::AgentEnded{agent.host, agent.id, reason});
  } else {
    out_.journal(record::AgentLost{agent.host, agent.id, reason});
  }
  const bool costs_members = std::any_of(agent.workers.begin(), agent.workers.end(),
                                         [&](WorkerId id) { return roster_.worker(id)->trains(); });
  if (!expected && !costs_members && !end_.begun() && !is_told) {
    const char* what = was_launching ? " could not be used: " : " is lost: ";
    const char* next = agent.awaited ? "; it is tried again" : "";
    out_.tell(Tell::Level::kWarning, "host " + agent.host + what + reason + next);
  }
  lose_workers(agent, reason);
  if (!agent.offered) {
    roster_.remove_agent(agent.id);
  } else if (!expected) {
    links_.schedule_relaunch(agent);
  }
}

void AgentWatch::lose_workers(Agent& agent, const std::string& reason) {
  const std::set<WorkerId> workers = agent.workers;
  const bool plain = startup_.is_plain();
  std::vector<std::string> failed;
  for (WorkerId id : workers) {
    const Worker& worker = *roster_.worker(id);
    const bool over = worker.finished() || worker.left() || worker.dying();
    const bool counts = worker.seated() || plain;
    if (!over && counts) failed.push_back(workers_.name_of(worker));
    if (!over && !counts) {
      out_.journal(record::Dropped{id, "host " + agent.host + " is lost"});
    }
    workers_.remove(id);
  }
  if (failed.empty()) return;
  std::string list;
  for (const std::string& name : failed) list += (list.empty() ? "" : ", ") + name;
  const std::string text = "host " + agent.host + " is lost with " + list + ": " + reason;
  const std::string advice = ". Check the host and its network, then start the run again.";
  if (plain) {
    if (plain_.begin(text)) return;
    ending_.fail_run(69, text + advice);
    return;
  }
  judge_.lose_member({FailureClass::kInfrastructure, kStatusUnavailable, agent.host, text, "", false});
}

void AgentWatch::watch(Agent& agent) {
  agent.timer = out_.arm({TimerKind::kAgentLook, {}, agent.id}, detector_.watch(agent.id, out_.now()));
}

}  // namespace elastictrain::core
