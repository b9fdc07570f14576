#include "supervisor/core/hosts.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "supervisor/core/ending.h"
#include "supervisor/core/pure/message_text.h"
#include "supervisor/core/recovering.h"

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

// "h1:0,1,3"
std::string text_of(const HostSlots& host) {
  std::string text = host.host;
  for (std::uint32_t slot : host.only) text += (text.size() == host.host.size() ? ":" : ",") + std::to_string(slot);
  return text;
}

bool contains(const std::vector<protocol::WarmProcess>& list, WorkerId worker) {
  return std::any_of(list.begin(), list.end(), [&](const auto& process) { return process.worker == worker; });
}

}  // namespace

std::optional<std::vector<std::uint32_t>> only_of(const std::vector<std::uint32_t>& only) {
  if (only.empty()) return std::nullopt;
  return only;
}

// The host's workers leave as in a drain; the notice does not count as their failure.
void on(Run& run, const HostNoticed& event) {
  Agent* agent = run.roster.agent(event.agent);
  if (agent == nullptr || agent->link == Link::kDown || agent->drain) return;
  run.out.journal(record::HostNotice{agent->host, agent->id, event.reason});
  run.out.tell(Tell::Level::kWarning, "host " + agent->host + " is about to go away (" + event.reason +
                                          "): its workers leave at a step boundary");
  agent->drain = agent->noticed = true;
  renew_desired(run);
}

static void launch_host(Run& run, const HostSlots& offered, std::uint32_t order) {
  Agent& agent = run.roster.add_agent(offered.host, offered.slots);
  agent.order = order;
  agent.only = offered.only;
  run.out.journal(record::HostOffered{agent.host, agent.slots, agent.id, only_of(agent.only)});
  run.out.emit(LaunchAgent{agent.id, agent.host, agent.slots});
  renew_desired(run);
}

void undrain_host(Run& run, Agent& agent) {
  agent.drain = false;
  renew_desired(run);
  if (agent.link != Link::kDown && !agent.stopping) return;
  const HostSlots host{agent.host, agent.slots, agent.only};
  const std::uint32_t order = agent.order;
  agent.offered = false;  // what is left of it ends beside its successor
  if (agent.link == Link::kDown) {
    run.out.cancel(agent.timer);
    run.roster.remove_agent(agent.id);
  }
  launch_host(run, host, order);
}

void stop_agent(Run& run, Agent& agent) {
  if (agent.stopping) return;
  agent.stopping = true;
  run.out.emit(StopAgent{agent.id, static_cast<std::uint64_t>(run.settings.grace.count())});
}

// A program of fixed size has all its processes, and will not be started again, maybe on other hosts.
static bool takes_no_host(const Run& run) {
  return run.startup.fixed && run.startup.is_plain() && !run.startup.clearing &&
         run.startup.plain_restarts >= run.settings.failures.plain_restarts;
}

static void let_go(Run& run, Agent& agent) {
  const std::string why = "the program has a fixed size, and its " + counted(run.startup.first_size, "worker") +
                          (run.startup.first_size == 1 ? " runs" : " run") + " on other hosts";
  run.out.journal(record::HostUnneeded{agent.host, agent.id, why});
  run.out.tell(Tell::Level::kInfo, "host " + agent.host + " is not used: " + why);
  stop_agent(run, agent);
}

void release_agents(Run& run) {
  for (auto& [id, agent] : run.roster.agents()) {
    if (agent.link != Link::kUp || agent.stopping || !agent.workers.empty()) continue;
    if (agent.drain || !agent.offered) {
      run.out.journal(record::HostReleased{agent.host, id});
      run.out.tell(Tell::Level::kInfo, "host " + agent.host + " is free: it has no workers left");
      stop_agent(run, agent);
    } else if (takes_no_host(run) && !agent.used && !agent.cut_off) {
      let_go(run, agent);
    }
  }
}

std::string unreachable_hosts(const Run& run) {
  std::string text;
  for (const Agent* agent : run.roster.agents_in_order()) {
    const bool drained = agent->drained();
    if (!drained && (agent->link == Link::kUp || agent->stopping)) continue;
    const std::string why = drained                      ? "is drained"
                            : agent->lost_reason.empty() ? "has not answered yet"
                                                         : agent->lost_reason;
    text += (text.empty() ? "" : "; ") + agent->host + ": " + why;
  }
  return text;
}

static void offer_host(Run& run, const HostSlots& offered, std::uint32_t order, Agent* known) {
  if (known == nullptr) {
    if (offered.slots > 0) launch_host(run, offered, order);
    return;
  }
  known->order = order;
  if (!known->offered) {
    run.out.journal(record::HostBack{offered.host});
    known->offered = true;
    known->drain = known->noticed = false;  // they concerned the host as it was before
    renew_desired(run);
  }
  if (known->slots != offered.slots || known->only != offered.only) {
    run.out.journal(record::HostSlotsChanged{offered.host, offered.slots, only_of(offered.only)});
    known->slots = offered.slots;
    known->only = offered.only;
    renew_desired(run);
  }
}

static void withdraw_host(Run& run, Agent& agent) {
  if (!agent.offered) return;
  agent.offered = false;
  run.out.journal(record::HostVanished{agent.host});
  renew_desired(run);
  if (agent.link == Link::kDown) {
    run.roster.remove_agent(agent.id);
    return;
  }
  if (!agent.workers.empty() && !run.settings.leased) {
    run.out.tell(Tell::Level::kWarning,
                 "host " + agent.host + " is no longer on the list of hosts: its workers leave at a step boundary");
  }
  if (agent.link == Link::kLaunching) stop_agent(run, agent);
}

static void offer_hosts(Run& run, const std::vector<HostSlots>& hosts) {
  if (!run.startup.hosts_known) {
    run.startup.hosts_known = true;
    run.startup.timer = run.out.arm({TimerKind::kStart, {}, {}}, run.out.now() + run.settings.start_timeout);
    run.out.look_again();
  }
  std::unordered_map<std::string, AgentId> known;
  for (const auto& [id, agent] : run.roster.agents()) {
    if (agent.offered || !agent.stopping) known[agent.host] = id;
  }
  std::uint32_t order = 0;
  for (const HostSlots& host : merge_repeated(hosts)) {
    const auto found = known.find(host.host);
    offer_host(run, host, order++, found == known.end() ? nullptr : run.roster.agent(found->second));
    if (found != known.end()) known.erase(found);
  }
  std::vector<AgentId> missing;
  for (const auto& [host, id] : known) missing.push_back(id);
  std::sort(missing.begin(), missing.end());
  for (AgentId id : missing) withdraw_host(run, *run.roster.agent(id));
}

void on(Run& run, const HostsOffered& event) {
  offer_hosts(run, event.hosts);
}

// The supervisor that took this lease was lost before the run had left.
static bool is_left_undone(const Run& run, const LeaseGiven& event) {
  return event.version == run.desired.lease.version && run.desired.lease.slots < run.settings.min_workers &&
         run.settings.has_checkpoints && !run.roster.workers().empty() && !run.end.begun();
}

// As before its first lease: nothing is started, and nothing is late.
static void wait_for_lease(Run& run) {
  if (run.startup.hosts_known) offer_hosts(run, {});
  run.startup.hosts_known = false;
  run.startup.expired = false;
  run.out.cancel(run.startup.timer);
  run.out.cancel(run.startup.min_timer);
  run.out.look_again();
}

static void suspend(Run& run) {
  run.end.suspended = true;
  want_end(run, EndMode::kDraining, status_of(StopCause::kSuspended),
           std::string(reason_of(StopCause::kSuspended)) +
               (run.desired.lease.reason.empty() ? "" : ": " + run.desired.lease.reason));
}

static void act_on_lease(Run& run, const LeaseGiven& event) {
  run.desired.applied_lease = event.version;
  run.out.look_again();
  const bool enough = run.desired.lease.slots >= run.settings.min_workers;
  if (enough) return offer_hosts(run, event.hosts);
  if (run.roster.workers().empty()) return wait_for_lease(run);
  if (run.settings.has_checkpoints) return suspend(run);
  run.out.tell(Tell::Level::kWarning, "the cluster leases " + counted(run.desired.lease.slots, "slot") +
                                          ", but at least " + counted(run.settings.min_workers, "worker") +
                                          " must train, and there is no checkpoint.directory to leave a state in: the "
                                          "run keeps what it needs");
  offer_hosts(run, event.hosts);
}

void on(Run& run, const LeaseGiven& event) {
  if (is_left_undone(run, event)) return suspend(run);
  // The supervisor that took this lease may have been lost before it acted on it.
  const bool is_taken = event.version == run.desired.lease.version && event.version != run.desired.applied_lease;
  if (is_taken && run.startup.hosts_known) return act_on_lease(run, event);
  // A run that begins again has no slots: what it had is given to it anew, perhaps by the same version.
  const bool anew = event.version == run.desired.lease.version && !run.startup.hosts_known && !event.hosts.empty();
  if (event.version < run.desired.lease.version || (event.version == run.desired.lease.version && !anew)) {
    if (event.version < run.desired.lease.version) run.out.journal(record::LeaseIgnored{event.version});
    return;
  }
  record::LeaseTaken taken{event.version, 0, {}, event.reason, {}, {}};
  if (event.hold) taken.hold = true;
  if (event.moves) taken.moves = true;
  for (const HostSlots& host : event.hosts) {
    taken.slots += host.usable();
    taken.hosts.push_back(text_of(host));
  }
  run.desired.lease = {event.version, taken.slots, event.reason, event.hold, event.moves};
  run.out.journal(std::move(taken));
  act_on_lease(run, event);
}

// A recovery without a loss, which goes on when the lease says so: every worker halts where it is, with its state and
// the gradients of its open step, and a generation of the same workers repeats only their sum.
void halt_for_lease(Run& run) {
  const bool trains = run.training.generation != 0 && !run.training.members.empty() && !run.takeover.waiting;
  if (!run.desired.lease.hold || !trains || run.recovery.active_or_wanted() || run.end.begun()) return;
  want_recovery(run, std::string(reason_of(StopCause::kSuspended)) +
                         (run.desired.lease.reason.empty() ? "" : ": " + run.desired.lease.reason));
}

// One whose worker has not ended yet stays if a shrink let that worker go. The slots of a lease are given back as soon
// as the lease says so.
static bool may_stay(const Run& run, const Agent& agent, const protocol::WarmProcess& process) {
  const bool usable = agent.usable() && agent.may_use(process.slot) && !run.end.begun() && !run.training.restarting;
  if (!run.settings.keeps_warm || !usable) return false;
  const Place place{agent.id, process.slot};
  if (run.roster.is_blamed(place) || !run.health.usable(agent.host, run.out.now())) return false;
  const std::vector<WorkerId> here = run.roster.occupants(place);
  return std::all_of(here.begin(), here.end(),
                     [&](WorkerId id) { return id == process.worker && run.roster.worker(id)->may_be_warm; });
}

// An agent that stops ends them by itself.
static void end_warm(Run& run, const Agent& agent, const protocol::WarmProcess& process) {
  if (!agent.stopping) run.out.emit(EndWarm{agent.id, process.worker});
}

void on(Run& run, const WarmReported& event) {
  Agent* agent = run.roster.agent(event.agent);
  if (agent == nullptr) return;
  const auto before = std::exchange(agent->warm, {});
  for (const protocol::WarmProcess& process : event.processes) {
    if (process.ending) continue;
    if (!may_stay(run, *agent, process)) {
      end_warm(run, *agent, process);
      continue;
    }
    agent->warm.push_back(process);
    if (!contains(before, process.worker)) {
      run.out.journal(record::KeptWarm{process.worker, agent->host, process.slot, process.pid});
    }
  }
  for (const protocol::WarmProcess& process : before) {
    if (!contains(agent->warm, process.worker)) run.out.journal(record::WarmEnded{process.worker, agent->host});
  }
}

void end_unneeded_warm(Run& run) {
  for (auto& [id, agent] : run.roster.agents()) {
    if (agent.link != Link::kUp) agent.warm.clear();
    if (agent.cut_off) continue;  // it says what it has when it is back
    std::erase_if(agent.warm, [&](const protocol::WarmProcess& process) {
      if (may_stay(run, agent, process)) return false;
      run.out.journal(record::WarmEnded{process.worker, agent.host});
      end_warm(run, agent, process);
      return true;
    });
  }
}

}  // namespace elastictrain::core
