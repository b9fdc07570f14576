// The part of the state machine that manages hosts and agents.
#include <algorithm>
#include <unordered_map>

#include "supervisor/core/membership_impl.h"

namespace elastictrain::core {
namespace {

// A list may name a host twice (one line per slot, as some batch systems write it).
std::vector<HostSlots> merge_repeated(const std::vector<HostSlots>& hosts) {
  std::vector<HostSlots> merged;
  std::unordered_map<std::string, std::size_t> index;
  for (const HostSlots& host : hosts) {
    const auto [found, fresh] = index.try_emplace(host.host, merged.size());
    if (fresh) {
      merged.push_back(host);
    } else {
      merged[found->second].slots += host.slots;
    }
  }
  return merged;
}

}  // namespace

void Membership::Impl::on(const HostsOffered& event) {
  if (!hosts_known_) {
    hosts_known_ = true;
    start_timer_ = arm({TimerKind::kStart, {}, {}}, now_ + settings_.start_timeout);
    dirty_ = true;
  }
  std::unordered_map<std::string, AgentId> known;
  for (const auto& [id, agent] : roster_.agents()) {
    if (agent.offered || !agent.stopping) known[agent.host] = id;
  }
  std::uint32_t order = 0;
  for (const HostSlots& host : merge_repeated(event.hosts)) {
    const auto found = known.find(host.host);
    offer_host(host, order++, found == known.end() ? nullptr : roster_.agent(found->second));
    if (found != known.end()) known.erase(found);
  }
  std::vector<AgentId> missing;
  for (const auto& [host, id] : known) missing.push_back(id);
  std::sort(missing.begin(), missing.end());
  for (AgentId id : missing) withdraw_host(*roster_.agent(id));
}

void Membership::Impl::offer_host(const HostSlots& offered, std::uint32_t order, Agent* known) {
  if (known == nullptr) {
    if (offered.slots > 0) launch(offered, order);
    return;
  }
  known->order = order;
  if (!known->offered) {
    journal(record::HostBack{offered.host});
    known->offered = true;
    known->drain = false;  // the request concerned the host as it was before
    new_wish();
  }
  if (known->slots != offered.slots) {
    journal(record::HostSlotsChanged{offered.host, offered.slots});
    known->slots = offered.slots;
    new_wish();
  }
}

void Membership::Impl::launch(const HostSlots& offered, std::uint32_t order) {
  Agent& agent = roster_.add_agent(offered.host, offered.slots);
  agent.order = order;
  journal(record::HostOffered{agent.host, agent.slots, agent.id});
  emit(LaunchAgent{agent.id, agent.host, agent.slots});
  new_wish();
}

void Membership::Impl::withdraw_host(Agent& agent) {
  if (!agent.offered) return;
  agent.offered = false;
  journal(record::HostVanished{agent.host});
  new_wish();
  if (agent.link == Link::kDown) {
    roster_.remove_agent(agent.id);
    return;
  }
  if (!agent.workers.empty()) {
    tell(Tell::Level::kWarning,
         "host " + agent.host + " is no longer on the list of hosts: its workers leave at a step boundary");
  }
  if (agent.link == Link::kLaunching) stop_agent(agent);
}

void Membership::Impl::on(const AgentConnected& event) {
  Agent* agent = roster_.agent(event.agent);
  const bool unwanted = agent == nullptr || agent->stopping || agent->link == Link::kDown;
  const bool known = !unwanted && agent->link == Link::kUp;
  if (unwanted || (end_.mode != EndMode::kNone && !known)) {
    if (agent != nullptr && !unwanted) {
      agent->link = Link::kUp;
      stop_agent(*agent);
    } else {
      emit(StopAgent{event.agent, static_cast<std::uint64_t>(settings_.grace.count())});
    }
    return;
  }
  if (agent->link == Link::kUp) {
    come_back(*agent, event.workers);
    return;
  }
  agent->link = Link::kUp;
  agent->last_heard = now_;
  journal(record::AgentConnected{agent->host, agent->id});
  agent->timer = arm({TimerKind::kAgentLook, {}, agent->id}, detector_.watch(agent->id, now_));
  dirty_ = true;
}

void Membership::Impl::on(const AgentReported& event) {
  Agent* agent = roster_.agent(event.agent);
  if (agent == nullptr || agent->link != Link::kUp) return;
  heard(*agent);
  for (const protocol::WorkerPulse& pulse : event.report.workers) {
    Worker* worker = roster_.worker(pulse.worker);
    if (worker == nullptr || worker->agent != agent->id) continue;
    worker->quiet_ms = pulse.quiet_ms;
    if (pulse.heartbeat.sequence < worker->heartbeat.sequence) continue;
    worker->take(pulse.heartbeat);
    note_progress(pulse.heartbeat);
    for (const HangFinding& finding : hangs_.heard(pulse, now_)) act_on(finding);
  }
}

void Membership::Impl::heard(Agent& agent) {
  agent.last_heard = now_;
  if (!detector_.heard(agent.id, now_)) return;
  agent.suspect = false;
  journal(record::AgentHealthy{agent.host, agent.id});
}

void Membership::Impl::look_at(AgentId id) {
  Agent* agent = roster_.agent(id);
  if (agent == nullptr || agent->link != Link::kUp) return;
  agent->timer = 0;
  const FailureDetector::Look look = detector_.look(id, now_);
  const auto silence = static_cast<std::uint64_t>(detector_.silence(id, now_).count());
  if (look.verdict == Verdict::kDead) {
    const std::string why = agent->cut_off ? " (" + agent->lost_reason + ")" : "";
    if (!agent->cut_off && !agent->stopping) {
      emit(StopAgent{id, static_cast<std::uint64_t>(settings_.grace.count())});
    }
    if (!agent->cut_off) silent_.insert(id);
    lose_agent(*agent, "no report arrived for " + std::to_string(silence) + " ms" + why);
    return;
  }
  if (look.changed) {
    agent->suspect = true;
    journal(record::AgentSuspect{agent->host, silence});
  }
  agent->timer = arm({TimerKind::kAgentLook, {}, id}, look.next);
}

void Membership::Impl::on(const AgentLost& event) {
  if (silent_.erase(event.agent) > 0) dirty_ = true;
  Agent* agent = roster_.agent(event.agent);
  if (agent == nullptr || agent->link == Link::kDown) return;
  const bool may_return = event.evidence == LossEvidence::kConnection && agent->link == Link::kUp && !agent->stopping;
  if (may_return && end_.mode != EndMode::kNow) {
    cut_off(*agent, event.reason);
    return;
  }
  lose_agent(*agent, event.reason);
}

void Membership::Impl::lose_agent(Agent& agent, const std::string& reason) {
  const bool expected = agent.stopping && agent.workers.empty();
  const bool was_launching = agent.link == Link::kLaunching;
  agent.link = Link::kDown;
  agent.cut_off = false;
  agent.lost_reason = reason;
  cancel(agent.timer);
  cancel(agent.reconnect_timer);
  detector_.forget(agent.id);
  dirty_ = true;
  if (expected) {
    journal(record::AgentEnded{agent.host, agent.id, reason});
  } else {
    journal(record::AgentLost{agent.host, agent.id, reason});
  }
  const bool costs_members = std::any_of(agent.workers.begin(), agent.workers.end(),
                                         [&](WorkerId id) { return roster_.worker(id)->trains(); });
  if (!expected && !costs_members && end_.mode == EndMode::kNone) {
    const char* what = was_launching ? " did not answer: " : " is lost: ";
    tell(Tell::Level::kWarning, "host " + agent.host + what + reason);
  }
  lose_workers(agent, reason);
  if (!agent.offered) {
    roster_.remove_agent(agent.id);
  } else if (!expected) {
    schedule_relaunch(agent);
  }
}

void Membership::Impl::lose_workers(Agent& agent, const std::string& reason) {
  const std::set<WorkerId> workers = agent.workers;
  const bool plain = spawned_ && !elastic_;
  std::vector<std::string> failed;
  for (WorkerId id : workers) {
    const Worker& worker = *roster_.worker(id);
    const bool over = worker.finished || worker.left || worker.dying;
    const bool counts = worker.seated || plain;
    if (!over && counts) failed.push_back(name_of(worker));
    if (!over && !counts) {
      journal(record::Dropped{id, "host " + agent.host + " is lost"});
    }
    bury(id);
  }
  if (failed.empty()) return;
  std::string list;
  for (const std::string& name : failed) list += (list.empty() ? "" : ", ") + name;
  const std::string text = "host " + agent.host + " is lost with " + list + ": " + reason;
  const std::string advice = ". Check the host and its network, then start the run again.";
  if (plain) {
    fail_run(69, text + advice);
    return;
  }
  lose_member({FailureClass::kInfrastructure, kStatusUnavailable, agent.host, text, "", false});
}

// The host's workers leave as in a drain; the notice does not count as their failure.
void Membership::Impl::on(const HostNoticed& event) {
  Agent* agent = roster_.agent(event.agent);
  if (agent == nullptr || agent->link == Link::kDown || agent->drain) return;
  journal(record::HostNotice{agent->host, agent->id, event.reason});
  tell(Tell::Level::kWarning,
       "host " + agent->host + " is about to go away (" + event.reason + "): its workers leave at a step boundary");
  agent->drain = true;
  new_wish();
}

void Membership::Impl::stop_agent(Agent& agent) {
  if (agent.stopping) return;
  agent.stopping = true;
  emit(StopAgent{agent.id, static_cast<std::uint64_t>(settings_.grace.count())});
}

void Membership::Impl::release_agents() {
  for (auto& [id, agent] : roster_.agents()) {
    const bool unneeded = agent.drain || !agent.offered;
    if (!unneeded || agent.link != Link::kUp || agent.stopping || !agent.workers.empty()) continue;
    journal(record::HostReleased{agent.host, id});
    tell(Tell::Level::kInfo, "host " + agent.host + " is free: it has no workers left");
    stop_agent(agent);
  }
}

std::string Membership::Impl::unreachable_hosts() const {
  std::string text;
  for (const Agent* agent : roster_.agents_in_order()) {
    if (agent->link == Link::kUp || agent->stopping) continue;
    const std::string why = agent->link == Link::kLaunching ? "has not answered yet" : agent->lost_reason;
    text += (text.empty() ? "" : "; ") + agent->host + ": " + why;
  }
  return text;
}

}  // namespace elastictrain::core
