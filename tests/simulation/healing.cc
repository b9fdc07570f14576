// How a scenario ends its faults.
#include <algorithm>
#include <utility>

#include "tests/simulation/agent_process.h"
#include "tests/simulation/journal_records.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/supervisor_process.h"
#include "tests/simulation/worker_process.h"

namespace elastictrain::simulation {

void Scenario::resume_supervisor() {
  if (world_->exit_status || !world_->supervisor->crashed()) return;
  core::Resumed resumed = replayed(world_->disk.journal_text(), world_->disk.boots);
  resumed.audits = world_->disk.audits;
  world_->log("supervisor", [&] {
    return "is started again: generation " + std::to_string(resumed.generation) + ", numbers used up to " +
           std::to_string(resumed.issued) + ", " + std::to_string(resumed.workers.size()) + " workers" +
           (resumed.unsettled ? ", unsettled" : "");
  });
  // The record of the start was lost with a machine, and with another one whatever state there was.
  const bool anybody_trained = std::any_of(world_->workers.begin(), world_->workers.end(), [](const auto& entry) {
    return entry.second->machine().committed_step() > 0;
  });
  start_forgotten_ = resumed.generation == 0 && !anybody_trained;
  world_->oracle.forget_requests();
  world_->supervisor = std::make_unique<SupervisorProcess>(*world_);
  world_->supervisor->take_over(resumed);
}

void Scenario::heal_host(Host& host) {
  if (!host.on) world_->log(host.name, [] { return "has power again"; });
  if (host.cut_up || host.cut_down || host.cut_data) world_->log(host.name, [] { return "is healed"; });
  host.on = true;
  host.offered = true;
  host.cut_up = host.cut_down = host.cut_data = false;
  host.slowness = 1;
  world_->look_again();
}

void Scenario::heal_all() {
  healed_ = true;
  world_->log("world", [] { return "everything is healed"; });
  world_->fault_rates = {};
  world_->odd.clear();
  world_->lease_holds = world_->lease_moves = false;
  world_->disk.full = false;
  world_->supervisor->crash_amid_actions(std::nullopt);
  if (world_->supervisor->crashed()) resume_supervisor();
  for (std::size_t i = 0; i < world_->hosts.size(); ++i) {
    heal_host(*world_->hosts[i]);
    world_->hosts[i]->slots = slots_[i];
    world_->hosts[i]->leased.clear();
    for (std::uint32_t slot = 0; slot < slots_[i]; ++slot) world_->hosts[i]->leased.push_back(slot);
  }
  std::vector<AgentId> agents;
  for (const auto& [id, agent] : world_->agents) agents.push_back(id);
  for (const AgentId id : agents) {
    if (AgentProcess* agent = world_->agent(id)) agent->resume();
  }
  std::vector<WorkerId> workers;
  for (const auto& [id, worker] : world_->workers) workers.push_back(id);
  for (const WorkerId id : workers) {
    if (WorkerProcess* worker = world_->worker(id)) worker->resume();
  }
  world_->look_again();
  offer_drained_hosts_anew();
}

// A host that was drained, gave notice or was given up returns as a new one once it has been off the list. Without a
// target the run must get along with those that it has not given up.
void Scenario::offer_drained_hosts_anew() {
  const core::RunView view = world_->supervisor->machine().view();
  // An agent may be left on a host that the run has given up: it is told to stop when it comes back.
  const auto given_up = [&](const Host& host) {
    return std::any_of(view.agents.begin(), view.agents.end(),
                       [&](const core::AgentView& agent) { return agent.host == host.name && agent.gone; });
  };
  for (const auto& host : world_->hosts) {
    host->offered = !host->away && (!has_target_ || (world_->has_agent(*host) && !given_up(*host)));
  }
  if (!world_->exit_status) world_->supervisor->offer_hosts();
  later(Micros(8'000'000), Micros(12'000'000), [this] {
    for (const auto& host : world_->hosts) host->offered = true;
    if (!world_->exit_status) world_->supervisor->offer_hosts();
  });
}

}  // namespace elastictrain::simulation
