#include "supervisor/core/host_list.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "supervisor/core/change.h"
#include "supervisor/core/desired_state.h"
#include "supervisor/core/outbox.h"
#include "supervisor/core/settings.h"
#include "supervisor/core/startup.h"
#include "supervisor/core/text.h"

namespace elastictrain::core {
namespace {

void add_numbers(std::vector<std::uint32_t>& numbers, const std::vector<std::uint32_t>& more) {
  numbers.insert(numbers.end(), more.begin(), more.end());
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

// A list may name a host twice (one line per slot, as some batch systems write it).
std::vector<HostSlots> merge_repeated(const std::vector<HostSlots>& hosts) {
  std::vector<HostSlots> merged;
  std::unordered_map<std::string, std::size_t> index;
  for (const HostSlots& host : hosts) {
    const auto [found, fresh] = index.try_emplace(host.host, merged.size());
    if (fresh) {
      merged.push_back(host);
    } else if (!host.only.empty()) {
      add_numbers(merged[found->second].only, host.only);
    } else {
      merged[found->second].slots += host.slots;
    }
  }
  return merged;
}

}  // namespace

std::optional<std::vector<std::uint32_t>> only_of(const std::vector<std::uint32_t>& only) {
  if (only.empty()) return std::nullopt;
  return only;
}

HostList::HostList(const RunSettings& settings, Roster& roster, Outbox& out, Startup& startup, DesiredState& desired,
                   Change& change)
    : settings_(settings), roster_(roster), out_(out), startup_(startup), desired_(desired), change_(change) {}

void HostList::offer(const std::vector<HostSlots>& hosts) {
  if (!startup_.hosts_known) {
    startup_.hosts_known = true;
    startup_.timer = out_.arm({TimerKind::kStart, {}, {}}, out_.now() + settings_.start_timeout);
    out_.look_again();
  }
  std::unordered_map<std::string, AgentId> known;
  for (const auto& [id, agent] : roster_.agents()) {
    if (agent.offered || !agent.stopping) known[agent.host] = id;
  }
  std::uint32_t order = 0;
  for (const HostSlots& host : merge_repeated(hosts)) {
    const auto found = known.find(host.host);
    offer_host(host, order++, found == known.end() ? nullptr : roster_.agent(found->second));
    if (found != known.end()) known.erase(found);
  }
  std::vector<AgentId> missing;
  for (const auto& [host, id] : known) missing.push_back(id);
  std::sort(missing.begin(), missing.end());
  for (AgentId id : missing) withdraw_host(*roster_.agent(id));
}

void HostList::offer_host(const HostSlots& offered, std::uint32_t order, Agent* known) {
  if (known == nullptr) {
    if (offered.slots > 0) launch(offered, order);
    return;
  }
  known->order = order;
  if (!known->offered) {
    out_.journal(record::HostBack{offered.host});
    known->offered = true;
    known->drain = known->noticed = false;  // they concerned the host as it was before
    desired_.renew(roster_, change_, out_);
  }
  if (known->slots != offered.slots || known->only != offered.only) {
    out_.journal(record::HostSlotsChanged{offered.host, offered.slots, only_of(offered.only)});
    known->slots = offered.slots;
    known->only = offered.only;
    desired_.renew(roster_, change_, out_);
  }
}

void HostList::launch(const HostSlots& offered, std::uint32_t order) {
  Agent& agent = roster_.add_agent(offered.host, offered.slots);
  agent.order = order;
  agent.only = offered.only;
  out_.journal(record::HostOffered{agent.host, agent.slots, agent.id, only_of(agent.only)});
  out_.emit(LaunchAgent{agent.id, agent.host, agent.slots});
  desired_.renew(roster_, change_, out_);
}

void HostList::withdraw_host(Agent& agent) {
  if (!agent.offered) return;
  agent.offered = false;
  out_.journal(record::HostVanished{agent.host});
  desired_.renew(roster_, change_, out_);
  if (agent.link == Link::kDown) {
    roster_.remove_agent(agent.id);
    return;
  }
  if (!agent.workers.empty() && !settings_.leased) {
    out_.tell(Tell::Level::kWarning,
              "host " + agent.host + " is no longer on the list of hosts: its workers leave at a step boundary");
  }
  if (agent.link == Link::kLaunching) stop_agent(agent);
}

// The host's workers leave as in a drain; the notice does not count as their failure.
void HostList::on(const HostNoticed& event) {
  Agent* agent = roster_.agent(event.agent);
  if (agent == nullptr || agent->link == Link::kDown || agent->drain) return;
  out_.journal(record::HostNotice{agent->host, agent->id, event.reason});
  out_.tell(Tell::Level::kWarning, "host " + agent->host + " is about to go away (" + event.reason +
                                       "): its workers leave at a step boundary");
  agent->drain = agent->noticed = true;
  desired_.renew(roster_, change_, out_);
}

void HostList::undrain(Agent& agent) {
  agent.drain = false;
  desired_.renew(roster_, change_, out_);
  if (agent.link != Link::kDown && !agent.stopping) return;
  const HostSlots host{agent.host, agent.slots, agent.only};
  const std::uint32_t order = agent.order;
  agent.offered = false;  // what is left of it ends beside its successor
  if (agent.link == Link::kDown) {
    out_.cancel(agent.timer);
    roster_.remove_agent(agent.id);
  }
  launch(host, order);
}

void HostList::stop_agent(Agent& agent) {
  if (agent.stopping) return;
  agent.stopping = true;
  out_.emit(StopAgent{agent.id, static_cast<std::uint64_t>(settings_.grace.count())});
}

void HostList::release_agents() {
  for (auto& [id, agent] : roster_.agents()) {
    if (agent.link != Link::kUp || agent.stopping || !agent.workers.empty()) continue;
    if (agent.drain || !agent.offered) {
      out_.journal(record::HostReleased{agent.host, id});
      out_.tell(Tell::Level::kInfo, "host " + agent.host + " is free: it has no workers left");
      stop_agent(agent);
    } else if (takes_no_host() && !agent.used && !agent.cut_off) {
      let_go(agent);
    }
  }
}

// A program of fixed size has all its processes, and will not be started again, maybe on other hosts.
bool HostList::takes_no_host() const {
  return startup_.fixed && startup_.is_plain() && !startup_.clearing &&
         startup_.plain_restarts >= settings_.failures.plain_restarts;
}

void HostList::let_go(Agent& agent) {
  const std::string why = "the program has a fixed size, and its " + counted(startup_.first_size, "worker") +
                          (startup_.first_size == 1 ? " runs" : " run") + " on other hosts";
  out_.journal(record::HostUnneeded{agent.host, agent.id, why});
  out_.tell(Tell::Level::kInfo, "host " + agent.host + " is not used: " + why);
  stop_agent(agent);
}

std::string HostList::unreachable_hosts() const {
  std::string text;
  for (const Agent* agent : roster_.agents_in_order()) {
    const bool drained = agent->drained();
    if (!drained && (agent->link == Link::kUp || agent->stopping)) continue;
    const std::string why = drained                      ? "is drained"
                            : agent->lost_reason.empty() ? "has not answered yet"
                                                         : agent->lost_reason;
    text += (text.empty() ? "" : "; ") + agent->host + ": " + why;
  }
  return text;
}

}  // namespace elastictrain::core
