#include "supervisor/worker_table.h"

#include "supervisor/protocol/check.h"

namespace elastictrain {

void WorkerTable::restore(const core::Resumed& resumed) {
  ET_CHECK(entries_.empty() && planned_ == 0, "a run is taken over before it has workers of its own");
  std::unordered_map<AgentId, std::string> hosts;
  for (const auto& agent : resumed.agents) hosts[agent.agent] = agent.host;
  for (const auto& place : resumed.workers) {
    entries_[place.worker] = {place.agent, hosts[place.agent], -1, place.slot, 0};
  }
  planned_ = generation_ = resumed.generation;
  std::unordered_map<AgentId, std::uint32_t> local_ranks;
  for (std::uint32_t rank = 0; rank < resumed.members.size(); ++rank) {
    const auto found = entries_.find(resumed.members[rank]);
    if (found == entries_.end()) continue;
    plan_.push_back({found->first, rank, local_ranks[found->second.agent]++});
  }
  committed(resumed.generation);
}

void WorkerTable::spawned(const core::SpawnWorker& spawn, bool first_generation) {
  ET_CHECK(!entries_.contains(spawn.worker), "a worker is started once");
  const bool has_rank = first_generation && spawn.rank < spawn.world_size;
  entries_[spawn.worker] = {spawn.agent, spawn.host, has_rank ? static_cast<std::int64_t>(spawn.rank) : -1,
                            spawn.local_rank, 0};
}

void WorkerTable::set_pid(WorkerId worker, std::int64_t pid) {
  const auto found = entries_.find(worker);
  if (found != entries_.end()) found->second.pid = pid;
}

void WorkerTable::adopt_pid(WorkerId worker, std::int64_t pid) {
  const WorkerEntry* entry = find(worker);
  if (entry != nullptr && entry->pid == 0) set_pid(worker, pid);
}

void WorkerTable::remove_all_of(AgentId agent) {
  std::erase_if(entries_, [agent](const auto& entry) { return entry.second.agent == agent; });
}

void WorkerTable::planned(const protocol::GenerationPlan& plan) {
  ET_CHECK(plan.generation >= planned_, "generations only rise");
  planned_ = plan.generation;
  plan_.clear();
  plan_.reserve(plan.members.size());
  for (const auto& member : plan.members) plan_.push_back({member.worker, member.rank, member.local_rank});
}

void WorkerTable::committed(Generation generation) {
  if (generation != planned_) return;
  ET_CHECK(generation >= generation_, "generations only rise");
  generation_ = generation;
  for (const Place& place : plan_) {
    const auto found = entries_.find(place.worker);
    if (found == entries_.end()) continue;
    found->second.rank = place.rank;
    found->second.local_rank = place.local_rank;
  }
}

const WorkerEntry* WorkerTable::find(WorkerId worker) const {
  const auto found = entries_.find(worker);
  return found == entries_.end() ? nullptr : &found->second;
}

std::set<AgentId> WorkerTable::agents_on(const std::string& host) const {
  std::set<AgentId> agents;
  for (const auto& [worker, entry] : entries_) {
    if (entry.host == host) agents.insert(entry.agent);
  }
  return agents;
}

// A leaver keeps its old rank for its remaining output, so the plan in effect decides once there is one.
AgentId WorkerTable::agent_of_rank_zero() const {
  if (generation_ != 0 && generation_ == planned_ && !plan_.empty()) {
    const WorkerEntry* first = find(plan_.front().worker);
    if (first != nullptr) return first->agent;
  }
  for (const auto& [worker, entry] : entries_) {
    if (entry.rank == 0) return entry.agent;
  }
  return {};
}

std::unordered_map<WorkerId, std::int64_t> WorkerTable::pids() const {
  std::unordered_map<WorkerId, std::int64_t> pids;
  pids.reserve(entries_.size());
  for (const auto& [worker, entry] : entries_) pids.emplace(worker, entry.pid);
  return pids;
}

}  // namespace elastictrain
