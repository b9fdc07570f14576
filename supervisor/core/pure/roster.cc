#include "supervisor/core/pure/roster.h"

#include <algorithm>
#include <utility>

#include "supervisor/protocol/check.h"

namespace elastictrain::core {

// A slot is tried twice: one failure may be a coincidence.
constexpr std::uint32_t kFailuresPerSlot = 2;

// A step may take longer than a heartbeat's period: a heartbeat without steps has no timings and does not replace the
// last ones.
void Worker::take(const protocol::WorkerHeartbeat& newer) {
  const protocol::WorkerHeartbeat older = std::exchange(heartbeat, newer);
  if (newer.steps != 0) return;
  heartbeat.mean = older.mean;
  heartbeat.samples_per_s = older.samples_per_s;
}

Agent& Roster::add_agent(std::string host, std::uint32_t slots) {
  return restore_agent(AgentId{++last_agent_}, std::move(host), slots);
}

Agent& Roster::restore_agent(AgentId id, std::string host, std::uint32_t slots) {
  Agent agent;
  agent.id = id;
  agent.host = std::move(host);
  agent.slots = slots;
  const auto [added, is_new] = agents_.emplace(agent.id, std::move(agent));
  ET_CHECK(is_new, "an id belongs to one agent");
  return added->second;
}

Worker& Roster::add_worker(Place place) {
  return restore_worker(WorkerId{++last_worker_}, place);
}

Worker& Roster::restore_worker(WorkerId id, Place place) {
  Agent& home = agents_.at(place.agent);
  Worker worker;
  worker.id = id;
  worker.agent = place.agent;
  worker.host = home.host;
  worker.slot = place.slot;
  home.workers.insert(worker.id);
  home.used = true;
  const auto [added, is_new] = workers_.emplace(worker.id, std::move(worker));
  ET_CHECK(is_new, "an id belongs to one worker");
  return added->second;
}

void Roster::ids_used(std::uint32_t last_agent, std::uint32_t last_worker) {
  last_agent_ = std::max(last_agent_, last_agent);
  last_worker_ = std::max(last_worker_, last_worker);
}

void Roster::remove_worker(WorkerId id) {
  const auto found = workers_.find(id);
  if (found == workers_.end()) return;
  if (Agent* home = agent(found->second.agent)) home->workers.erase(id);
  workers_.erase(found);
}

Agent* Roster::agent(AgentId id) {
  const auto found = agents_.find(id);
  return found == agents_.end() ? nullptr : &found->second;
}

Worker* Roster::worker(WorkerId id) {
  const auto found = workers_.find(id);
  return found == workers_.end() ? nullptr : &found->second;
}

Agent* Roster::agent_of_host(const std::string& host) {
  if (Agent* current = agent_on(host)) return current;
  for (auto& [id, agent] : agents_) {
    if (agent.host == host && agent.drained()) return &agent;
  }
  return nullptr;
}

Agent* Roster::agent_on(const std::string& host) {
  for (auto& [id, agent] : agents_) {
    if (agent.host == host && !agent.stopping) return &agent;
  }
  return nullptr;
}

std::vector<const Agent*> Roster::agents_in_order() const {
  std::vector<const Agent*> list;
  list.reserve(agents_.size());
  for (const auto& [id, agent] : agents_) list.push_back(&agent);
  std::stable_sort(list.begin(), list.end(), [](const Agent* a, const Agent* b) { return a->order < b->order; });
  return list;
}

const protocol::WarmProcess* Roster::warm_process(Place place) const {
  const Agent* home = agent(place.agent);
  if (home == nullptr) return nullptr;
  const auto found = std::find_if(home->warm.begin(), home->warm.end(),
                                  [&](const auto& process) { return process.slot == place.slot; });
  return found == home->warm.end() ? nullptr : &*found;
}

std::vector<WorkerId> Roster::occupants(Place place) const {
  std::vector<WorkerId> found;
  const Agent* home = agent(place.agent);
  if (home == nullptr) return found;
  for (WorkerId id : home->workers) {
    if (workers_.at(id).slot == place.slot) found.push_back(id);
  }
  return found;
}

std::vector<WorkerId> Roster::unfinished(const std::vector<WorkerId>& workers) const {
  std::vector<WorkerId> found;
  for (WorkerId id : workers) {
    const Worker* known = worker(id);
    if (known != nullptr && !known->finished()) found.push_back(id);
  }
  return found;
}

bool Roster::all_live(const std::vector<WorkerId>& workers) const {
  return std::all_of(workers.begin(), workers.end(), [&](WorkerId id) {
    const Worker* known = worker(id);
    return known != nullptr && !known->dying();
  });
}

bool Roster::nobody_trains() const {
  return std::none_of(workers_.begin(), workers_.end(), [](const auto& entry) { return entry.second.trains(); });
}

std::uint32_t Roster::usable_slots() const {
  std::uint32_t slots = 0;
  for (const auto& [id, agent] : agents_) {
    if (agent.usable()) slots += agent.usable_slots();
  }
  return slots;
}

bool Roster::any_launching() const {
  return std::any_of(agents_.begin(), agents_.end(), [](const auto& entry) {
    const Agent& agent = entry.second;
    return agent.link == Link::kLaunching && agent.offered && !agent.stopping && !agent.again;
  });
}

bool Roster::any_awaited() const {
  return std::any_of(agents_.begin(), agents_.end(), [](const auto& entry) {
    const Agent& agent = entry.second;
    return agent.awaited && agent.link != Link::kUp && agent.offered && !agent.drain && !agent.stopping;
  });
}

std::size_t Roster::blamed_slots() const {
  return static_cast<std::size_t>(std::count_if(
      blame_.begin(), blame_.end(), [](const auto& entry) { return entry.second.failures >= kFailuresPerSlot; }));
}

bool Roster::is_blamed(Place place) const {
  const auto found = blame_.find({place.agent, place.slot});
  return found != blame_.end() && found->second.failures >= kFailuresPerSlot;
}

bool Roster::rests(Place place, Instant now) const {
  const auto found = blame_.find({place.agent, place.slot});
  return found != blame_.end() && now < found->second.rests_until;
}

void Probation::begin(WorkerId id, Generation generation, std::uint64_t epoch) {
  newcomers_.try_emplace(id, Newcomer{.since = generation, .epoch = epoch});
}

void Probation::active(WorkerId id, Step first_step) {
  const auto found = newcomers_.find(id);
  if (found != newcomers_.end() && found->second.first_step == 0) found->second.first_step = first_step;
}

bool Probation::take(WorkerId id, const protocol::WorkerHeartbeat& heartbeat) {
  const auto found = newcomers_.find(id);
  if (found == newcomers_.end() || heartbeat.generation < found->second.since) return false;
  Newcomer& newcomer = found->second;
  newcomer.committed = heartbeat.step;
  if (newcomer.epoch_began == 0 && heartbeat.epoch > newcomer.epoch) newcomer.epoch_began = heartbeat.step;
  const bool passed = newcomer.epoch_began != 0 && heartbeat.step >= newcomer.epoch_began + kFirstSteps;
  if (!passed || is_in_first_steps(id)) return false;
  newcomers_.erase(found);
  return true;
}

void Probation::keep_known(const Roster& roster) {
  std::erase_if(newcomers_, [&](const auto& entry) { return roster.worker(entry.first) == nullptr; });
}

bool Probation::steps_of(WorkerId id, Step fewer_than) const {
  const auto found = newcomers_.find(id);
  if (found == newcomers_.end()) return false;
  const Newcomer& newcomer = found->second;
  return newcomer.first_step == 0 || newcomer.committed + 1 < newcomer.first_step + fewer_than;
}

std::uint32_t Probation::without_a_step(const Roster& roster) const {
  return static_cast<std::uint32_t>(std::count_if(newcomers_.begin(), newcomers_.end(), [&](const auto& entry) {
    const Worker* worker = roster.worker(entry.first);
    return worker != nullptr && worker->trains() && has_no_step(entry.first);
  }));
}

std::vector<WorkerId> Probation::suspects(const Roster& roster, Generation generation) const {
  Generation newest = 0;
  const auto counts = [&](const auto& entry) {
    const Worker* worker = roster.worker(entry.first);
    return worker != nullptr && worker->trains() && entry.second.since <= generation;
  };
  for (const auto& entry : newcomers_) {
    if (counts(entry)) newest = std::max(newest, entry.second.since);
  }
  std::vector<WorkerId> found;
  for (const auto& entry : newcomers_) {
    if (counts(entry) && entry.second.since == newest) found.push_back(entry.first);
  }
  return found;
}

}  // namespace elastictrain::core
