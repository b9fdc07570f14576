#include "tests/simulation/world.h"

#include "tests/simulation/agent_process.h"
#include "tests/simulation/supervisor_process.h"
#include "tests/simulation/worker_process.h"

namespace elastictrain::simulation {

World::World(std::uint64_t seed, Setup chosen, std::size_t story_lines)
    : setup(std::move(chosen)),
      dice(seed),
      story(story_lines),
      truth(setup.program.samples),
      plane(queue, dice, wires()) {}

World::~World() = default;

Wires World::wires() {
  const auto host_of = [this](WorkerId id) -> const Host* {
    const auto found = homes.find(id);
    return found == homes.end() ? nullptr : found->second;
  };
  Wires wires;
  wires.runs = [this](WorkerId id) {
    const WorkerProcess* process = worker(id);
    return process != nullptr && !process->stopped();
  };
  wires.connected = [host_of](WorkerId a, WorkerId b) {
    const Host* from = host_of(a);
    const Host* to = host_of(b);
    if (from == nullptr || to == nullptr) return false;
    if (from == to) return true;
    return from->on && to->on && !from->cut_data && !to->cut_data;
  };
  wires.violated = [this](const std::string& check, const std::string& text) { violated(check, text); };
  return wires;
}

void World::violated(const std::string& check, const std::string& text) {
  truth.violated(check, text);
}

Host& World::host(const std::string& name) {
  for (const auto& host : hosts) {
    if (host->name == name) return *host;
  }
  return *hosts.front();
}

AgentProcess* World::agent(AgentId id) {
  const auto found = agents.find(id);
  return found == agents.end() ? nullptr : found->second.get();
}

WorkerProcess* World::worker(WorkerId id) {
  const auto found = workers.find(id);
  return found == workers.end() ? nullptr : found->second.get();
}

Connection& World::new_connection(const Host& host) {
  connections_.push_back(std::make_unique<Connection>(queue, dice, host));
  return *connections_.back();
}

bool World::over() const {
  return exit_status.has_value() && agents.empty() && workers.empty();
}

void World::run_until(Instant end) {
  while (!truth.violation() && !over() && queue.run_next(end)) bury_the_dead();
}

void World::bury_the_dead() {
  dead_workers_.clear();
  dead_agents_.clear();
}

// ---------------------------------------------------------------------------------------------------------------
// The launcher

void World::launch(AgentId agent, const std::string& name) {
  Host& target = host(name);
  const bool fails = dice.chance(luck.launch_fails);
  const auto delay = dice.time(Micros(5'000), Micros(400'000));
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
  const bool seen = home.local || (home.on && !home.cut_up && dice.chance(0.5));
  dead_agents_.push_back(std::move(found->second));
  agents.erase(found);
  if (!seen) return;
  queue.after(dice.time(Micros(500), Micros(30'000)), [this, id] {
    if (supervisor) supervisor->launch_ended(id, true, true, "its process ended");
  });
}

void World::worker_ended(WorkerId id) {
  const auto found = workers.find(id);
  if (found == workers.end()) return;
  truth.gone(id);
  dead_workers_.push_back(std::move(found->second));
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

void World::lose_what_is_away() {
  for (const auto& [id, process] : agents) {
    if (process->paused() || !supervisor->hears(id, process->connection())) lose_accounts();
  }
  for (const auto& connection : connections_) {
    if (connection->up.holds_back()) lose_accounts();
  }
}

void World::power_off(Host& lost) {
  say(lost.name, [] { return "loses its power"; });
  lost.on = false;
  std::vector<AgentProcess*> there;
  for (const auto& [id, process] : agents) {
    if (&process->host() == &lost) there.push_back(process.get());
  }
  for (AgentProcess* process : there) process->vanish();
}

}  // namespace elastictrain::simulation
