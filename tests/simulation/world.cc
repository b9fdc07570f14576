#include "tests/simulation/world.h"

#include <algorithm>

#include "tests/simulation/agent_process.h"
#include "tests/simulation/supervisor_process.h"
#include "tests/simulation/worker_process.h"

namespace elastictrain::simulation {

World::World(std::uint64_t seed, Setup chosen, std::size_t trace_lines)
    : setup(std::move(chosen)),
      rng(seed),
      oddness(seed ^ 0x0dd0ddULL),
      lateness(seed ^ 0x1a7eULL),
      trace(trace_lines),
      oracle(setup.program.samples),
      plane(queue, rng, links()) {}

World::~World() = default;

Links World::links() {
  const auto host_of = [this](WorkerId id) -> const Host* {
    const auto found = homes.find(id);
    return found == homes.end() ? nullptr : found->second;
  };
  Links links;
  links.runs = [this](WorkerId id) {
    const WorkerProcess* process = worker(id);
    return process != nullptr && !process->stopped();
  };
  links.connected = [host_of](WorkerId a, WorkerId b) {
    const Host* from = host_of(a);
    const Host* to = host_of(b);
    if (from == nullptr || to == nullptr) return false;
    if (from == to) return true;
    return from->on && to->on && !from->cut_data && !to->cut_data;
  };
  links.violated = [this](const std::string& check, const std::string& text) { violated(check, text); };
  return links;
}

void World::violated(const std::string& check, const std::string& text) {
  oracle.violated(check, text);
}

Host& World::host(const std::string& name) {
  for (const auto& host : hosts) {
    if (host->name == name) return *host;
  }
  return *hosts.front();
}

bool World::leases(const std::string& name, std::uint32_t slot) const {
  return std::any_of(lease.begin(), lease.end(), [&](const core::HostSlots& host) {
    return host.host == name && std::find(host.only.begin(), host.only.end(), slot) != host.only.end();
  });
}

std::uint32_t World::leased_slots() const {
  std::uint32_t slots = 0;
  for (const core::HostSlots& host : lease) slots += host.usable();
  return slots;
}

AgentProcess* World::agent(AgentId id) {
  const auto found = agents.find(id);
  return found == agents.end() ? nullptr : found->second.get();
}

bool World::has_agent(const Host& host) const {
  return std::any_of(agents.begin(), agents.end(), [&](const auto& entry) { return &entry.second->host() == &host; });
}

WorkerProcess* World::worker(WorkerId id) {
  const auto found = workers.find(id);
  return found == workers.end() ? nullptr : found->second.get();
}

Connection& World::new_connection(const Host& host) {
  connections_.push_back(std::make_unique<Connection>(queue, rng, host));
  return *connections_.back();
}

bool World::over() const {
  return exit_status.has_value() && agents.empty() && workers.empty();
}

void World::run_until(Instant end) {
  while (!oracle.violation() && !over() && queue.run_next(end)) remove_ended();
}

void World::remove_ended() {
  ended_workers_.clear();
  ended_agents_.clear();
}

// ---------------------------------------------------------------------------------------------------------------
// The launcher

void World::launch(AgentId agent, const std::string& name) {
  Host& target = host(name);
  if (!launched_.insert(agent).second) return violated("ids_used_once", to_string(agent) + " is launched again");
  const bool fails = rng.chance(fault_rates.launch_fails);
  const auto delay = rng.time(Micros(5'000), Micros(400'000));
  queue.after(delay, [this, agent, &target, fails] {
    if (fails || !target.on || target.cut_down || target.cut_up) {
      const Millis until = fails ? Millis(100) : setup.connect_timeout;
      queue.after(until, [this, agent] {
        if (supervisor) supervisor->launch_ended(agent, false, true, "no route to host");
      });
      return;
    }
    auto process = std::make_unique<AgentProcess>(*this, agent, target);
    AgentProcess& started = *process;
    agents[agent] = std::move(process);
    started.begin();
    // Its host may lose its power before the agent has connected.
    queue.after(setup.connect_timeout, [this, agent] {
      if (supervisor) supervisor->launch_ended(agent, false, false, "it did not connect");
    });
  });
}

void World::forget(AgentId id) {
  AgentProcess* process = agent(id);
  if (process == nullptr) return;
  const Host& home = process->host();
  if (home.on && !home.cut_down) process->kill();
}

void World::agent_ended(AgentId id) {
  const auto found = agents.find(id);
  if (found == agents.end()) return;
  const Host& home = found->second->host();
  const bool seen = home.local || (home.on && !home.cut_up && rng.chance(0.5));
  ended_agents_.push_back(std::move(found->second));
  agents.erase(found);
  if (!seen) return;
  queue.after(rng.time(Micros(500), Micros(30'000)), [this, id] {
    if (supervisor) supervisor->launch_ended(id, true, true, "its process ended");
  });
}

void World::worker_ended(WorkerId id) {
  const auto found = workers.find(id);
  if (found == workers.end()) return;
  oracle.gone(id);
  ended_workers_.push_back(std::move(found->second));
  workers.erase(found);
  plane.died(id);
}

// ---------------------------------------------------------------------------------------------------------------
// Machines

void World::look_again() {
  for (const auto& connection : connections_) {
    connection->up.look_again();
    connection->down.look_again();
  }
  plane.look_again();
}

void World::forget_drains() {
  drained.clear();
  for (const auto& host : hosts) host->away = host->away || undrained.contains(host->name);
}

void World::lose_what_is_away() {
  for (const auto& [id, process] : agents) {
    if (process->paused() || !supervisor->receives(id, process->connection())) lose_audits();
  }
  for (const auto& connection : connections_) {
    if (connection->up.holds_back()) lose_audits();
  }
}

void World::power_off(Host& lost) {
  log(lost.name, [] { return "loses its power"; });
  lost.on = false;
  std::vector<AgentProcess*> there;
  for (const auto& [id, process] : agents) {
    if (&process->host() == &lost) there.push_back(process.get());
  }
  for (AgentProcess* process : there) process->vanish();
}

}  // namespace elastictrain::simulation
