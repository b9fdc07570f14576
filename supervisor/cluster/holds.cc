#include "supervisor/cluster/holds.h"

#include <algorithm>
#include <set>

namespace elastictrain::cluster {

void Holds::started(WorkerId worker, AgentId agent, const std::string& host, std::uint32_t slot) {
  held_[worker] = {agent, host, slot, std::nullopt};
}

void Holds::ended(WorkerId worker, AgentId agent) {
  const auto found = held_.find(worker);
  if (found != held_.end() && found->second.agent == agent) held_.erase(found);
}

void Holds::out_of_reach(AgentId agent, Instant when) {
  for (auto& [worker, held] : held_) {
    if (held.agent == agent && !held.until) held.until = when;
  }
}

void Holds::back(AgentId agent, const std::vector<WorkerId>& living) {
  const std::set<WorkerId> alive(living.begin(), living.end());
  std::erase_if(held_, [&](const auto& entry) { return entry.second.agent == agent && !alive.contains(entry.first); });
  for (auto& [worker, held] : held_) {
    if (held.agent == agent) held.until.reset();
  }
}

void Holds::pass(Instant now) {
  std::erase_if(held_, [&](const auto& entry) { return entry.second.until && *entry.second.until <= now; });
}

std::optional<Instant> Holds::next() const {
  std::optional<Instant> soonest;
  for (const auto& [worker, held] : held_) {
    if (held.until && (!soonest || *held.until < *soonest)) soonest = held.until;
  }
  return soonest;
}

std::vector<HostSlots> Holds::slots() const {
  std::map<std::string, std::set<std::uint32_t>> by_host;
  for (const auto& [worker, held] : held_) by_host[held.host].insert(held.slot);
  std::vector<HostSlots> list;
  for (const auto& [host, slots] : by_host) list.push_back({host, {slots.begin(), slots.end()}});
  return list;
}

}  // namespace elastictrain::cluster
