// The faults and requests of a scenario.
#include <algorithm>
#include <csignal>
#include <utility>

#include "tests/simulation/agent_process.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/supervisor_process.h"
#include "tests/simulation/worker_process.h"

namespace elastictrain::simulation {

void Scenario::later(Micros min, Micros max, std::function<void()> work) {
  world_->queue.after(rng_.time(min, max), std::move(work));
}

void Scenario::schedule_faults() {
  const std::uint32_t number = rng_.below(4) == 0 ? 0 : rng_.between(1, 14);
  const auto horizon = Micros(rng_.between(1'000'000, 25'000'000));
  calm_ = world_->queue.now() + horizon;
  if (rng_.chance(0.3)) {
    crashed_by_itself_ = true;
    world_->undisturbed = false;
    world_->fault_rates = {.launch_fails = 0.1, .spawn_fails = 0.05, .build_fails = 0.1, .crashes_at_start = 0.1};
    if (targets_.chance(0.3)) world_->fault_rates.never_ready = 0.2;
    world_->stalled = world_->fault_rates.never_ready > 0;
  }
  if (world_->oddness.chance(0.15)) {
    world_->fault_rates.odd = 0.5;
    world_->undisturbed = false;
  }
  if (world_->lateness.chance(0.15)) {
    world_->fault_rates.late_end = world_->lateness.chance(0.5) ? 1 : 0.4;
    world_->undisturbed = false;
    world_->stalled = true;
  }
  if (rng_.chance(0.4)) strike_in_ = rng_.between(1, 60);
  strikes_new_starts_ = rng_.chance(0.3);
  kills_supervisor_at_the_end_ = rng_.chance(0.2);
  if (rng_.chance(0.2)) {
    strikes_new_starts_ = true;
    later(Micros(0), horizon, [this] { cut_off_members(); });
  }
  if (notices_.chance(0.2)) {
    world_->queue.after(notices_.time(Micros(0), horizon), [this] {
      if (!healed_ && !world_->exit_status) notice_workers();
    });
  }
  const std::uint32_t leases = world_->setup.settings.leased ? leases_.between(0, 8) : 0;
  for (std::uint32_t i = 0; i < leases; ++i) {
    world_->queue.after(leases_.time(Micros(0), horizon), [this] {
      if (!healed_ && !world_->exit_status && !world_->supervisor->crashed()) lease_fault();
    });
  }
  for (std::uint32_t i = 0; i < number; ++i) {
    // Faults are correlated: some occur within moments of each other.
    const Micros when = rng_.time(Micros(0), horizon);
    const std::uint32_t together = rng_.chance(0.25) ? 2 : 1;
    for (std::uint32_t n = 0; n < together; ++n) {
      world_->queue.after(when + Micros(n * rng_.below(60'000)), [this] {
        if (!healed_ && !world_->exit_status) fault();
      });
    }
  }
}

void Scenario::fault() {
  ++faults_;
  const std::uint32_t kind = rng_.below(10);
  if (kind < 8) world_->undisturbed = false;
  switch (kind) {
    case 0:
    case 1:
    case 2:
      return worker_fault();
    case 3:
      return agent_fault();
    case 4:
      return host_fault();
    case 5:
    case 6:
      return link_fault();
    case 7:
      return supervisor_fault();
    default:
      return request();
  }
}

// A newer lease, often soon after another. An empty one suspends a run that has checkpoints.
void Scenario::lease_fault() {
  const core::RunSettings& settings = world_->setup.settings;
  draw_lease(leases_.chance(0.05) ? 0 : settings.min_workers);
  world_->lease_holds = leases_.chance(0.2);
  if (world_->lease_holds) world_->log("cluster", [] { return "lets the run stand still"; });
  world_->lease_moves = leases_.chance(0.4);
  world_->supervisor->offer_hosts();
  if (!leases_.chance(0.4)) return;
  world_->queue.after(leases_.time(Micros(0), Micros(400'000)), [this] {
    if (healed_ || world_->exit_status || world_->supervisor->crashed()) return;
    draw_lease(world_->setup.settings.min_workers);
    world_->lease_holds = false;
    world_->lease_moves = leases_.chance(0.4);
    world_->supervisor->offer_hosts();
  });
}

void Scenario::draw_lease(std::uint32_t at_least) {
  std::uint32_t slots = 0;
  do {
    slots = 0;
    const double share = at_least == 0 ? 0 : 0.1 * leases_.between(2, 10);
    for (const auto& host : world_->hosts) {
      host->leased.clear();
      for (std::uint32_t slot = 0; slot < host->slots; ++slot) {
        if (leases_.chance(share)) host->leased.push_back(slot);
      }
      if (host->offered) slots += static_cast<std::uint32_t>(host->leased.size());
    }
  } while (slots < at_least && std::any_of(world_->hosts.begin(), world_->hosts.end(), [](const auto& host) {
             return host->offered && host->leased.size() < host->slots;
           }));
  world_->log("cluster", [&] { return "leases " + std::to_string(slots) + " slots"; });
}

WorkerProcess* Scenario::any_worker() {
  if (world_->workers.empty()) return nullptr;
  auto found = world_->workers.begin();
  std::advance(found, rng_.below(static_cast<std::uint32_t>(world_->workers.size())));
  return found->second.get();
}

AgentProcess* Scenario::any_agent() {
  if (world_->agents.empty()) return nullptr;
  auto found = world_->agents.begin();
  std::advance(found, rng_.below(static_cast<std::uint32_t>(world_->agents.size())));
  return found->second.get();
}

// Some members have the sum already, others never get it.
void Scenario::kill_in_collective(const std::vector<WorkerId>& members) {
  if (strike_in_ == 0 || --strike_in_ != 0 || healed_) return;
  if (rng_.chance(0.5)) strike_in_ = rng_.between(1, 60);
  world_->undisturbed = false;
  const std::uint32_t victims = members.size() > 2 && rng_.chance(0.3) ? 2 : 1;
  for (std::uint32_t n = 0; n < victims; ++n) {
    const WorkerId id = members[rng_.below(static_cast<std::uint32_t>(members.size()))];
    later(Micros(0), Micros(2'000), [this, id] {
      if (WorkerProcess* worker = world_->worker(id)) worker->die(0, SIGKILL);
    });
  }
}

// The training workers cannot be reached by the supervisor. They train on and write checkpoints, while the run starts
// again elsewhere.
void Scenario::cut_off_members() {
  if (healed_) return;
  world_->undisturbed = false;
  for (const auto& host : world_->hosts) {
    const bool trains = std::any_of(world_->workers.begin(), world_->workers.end(), [&](const auto& entry) {
      return &entry.second->host() == host.get() && entry.second->trains();
    });
    if (!trains) continue;
    host->cut_up = host->cut_down = true;
    world_->log(host->name, [] { return "is out of the supervisor's reach, with all who train"; });
    later(Micros(5'000'000), Micros(20'000'000), [this, &host = *host] { heal_host(host); });
  }
}

// The run has started again from a checkpoint and has not yet written one.
void Scenario::kill_new_start(const std::vector<WorkerId>& members) {
  if (healed_ || !std::exchange(strikes_new_starts_, false)) return;
  world_->undisturbed = false;
  later(Micros(0), Micros(200'000), [this, members] {
    for (const WorkerId id : members) {
      if (WorkerProcess* worker = world_->worker(id)) worker->die(0, SIGKILL);
    }
  });
}

void Scenario::kill_supervisor_at_the_end() {
  if (!std::exchange(kills_supervisor_at_the_end_, false) || world_->disk.misses_records()) return;
  later(Micros(0), Micros(20'000), [this] {
    if (!world_->exit_status && !world_->disk.misses_records()) world_->supervisor->crash();
  });
}

void Scenario::worker_fault() {
  if (rng_.chance(0.5)) {
    strike_in_ = rng_.between(1, 6);
    return;
  }
  WorkerProcess* worker = any_worker();
  if (worker == nullptr) return;
  const WorkerId id = worker->id();
  const bool hangs_are_found = world_->setup.settings.failures.detect_hangs;
  switch (rng_.below(6)) {
    case 0:
      crashed_by_itself_ = true;
      return worker->die(static_cast<int>(rng_.between(1, 3)), 0);
    case 1:
      worker->pause();
      if (hangs_are_found && rng_.chance(0.5)) return;
      return later(Micros(10'000), Micros(5'000'000), [this, id] {
        if (WorkerProcess* same = world_->worker(id)) same->resume();
        world_->look_again();
      });
    case 2:
      if (hangs_are_found) return worker->hang();
      crashed_by_itself_ = true;
      return worker->die(0, SIGSEGV);
    case 3:
      return later(Micros(0), Micros(200), [this, id] {
        if (WorkerProcess* same = world_->worker(id)) same->die(0, SIGKILL);
      });
    default:
      return worker->die(0, SIGKILL);
  }
}

// TERM to one worker; or to all, as from a batch system that ends a job, or from a user who signals only the workers.
void Scenario::notice_workers() {
  world_->undisturbed = false;
  if (rng_.chance(0.6)) {
    if (WorkerProcess* worker = any_worker()) worker->notice();
    return;
  }
  std::vector<WorkerId> workers;
  for (const auto& [id, worker] : world_->workers) workers.push_back(id);
  for (const WorkerId id : workers) {
    later(Micros(0), Micros(300'000), [this, id] {
      if (WorkerProcess* worker = world_->worker(id)) worker->notice();
    });
  }
  SupervisorProcess& supervisor = *world_->supervisor;
  if (supervisor.crashed() || rng_.chance(0.8)) return;
  stop_requested_ = true;
  supervisor.ask(core::Stop{supervisor.next_request(), core::StopCause::kPreempted});
}

void Scenario::agent_fault() {
  AgentProcess* agent = any_agent();
  if (agent == nullptr) return;
  const AgentId id = agent->id();
  switch (rng_.below(4)) {
    case 0:
      world_->log(id, [] { return "is stopped by a signal"; });
      agent->pause();
      return later(Micros(10'000), Micros(6'000'000), [this, id] {
        if (AgentProcess* same = world_->agent(id)) same->resume();
      });
    case 1:
      agent->host().away = true;
      return agent->notice();
    default:
      return agent->kill();
  }
}

void Scenario::host_fault() {
  Host& host = any_host();
  switch (rng_.below(4)) {
    case 0:
      world_->power_off(host);
      break;
    case 1:
      world_->log(host.name, [] { return "is slow from now on"; });
      host.slowness = rng_.between(2, 6);
      world_->stalled = true;
      break;
    case 2:
      world_->log(host.name, [] { return "vanishes from the list"; });
      host.offered = false;
      if (targets_.chance(0.3)) host.slots = targets_.between(1, 3);
      if (world_->supervisor && !world_->supervisor->crashed()) world_->supervisor->offer_hosts();
      break;
    default:
      for (const auto& each : world_->hosts) {
        if (rng_.chance(0.7)) world_->power_off(*each);
      }
      break;
  }
  later(Micros(100'000), Micros(12'000'000), [this, &host] {
    if (healed_) return;
    for (const auto& each : world_->hosts) {
      if (each.get() == &host || !each->on) heal_host(*each);
    }
    if (world_->supervisor && !world_->supervisor->crashed()) world_->supervisor->offer_hosts();
  });
}

void Scenario::link_fault() {
  Host& host = any_host();
  if (rng_.chance(0.4)) {
    if (AgentProcess* agent = any_agent()) agent->break_connection();
    return;
  }
  const std::uint32_t kind = rng_.below(5);
  host.cut_up = kind != 1 && kind != 2;
  host.cut_down = kind != 0 && kind != 2;
  host.cut_data = kind >= 2;
  // From one direction alone the supervisor cannot tell it from a worker that does nothing.
  world_->stalled = world_->stalled || !host.cut_up || !host.cut_down;
  world_->log(host.name, [&] {
    return std::string("is cut off:") + (host.cut_up ? " up" : "") + (host.cut_down ? " down" : "") +
           (host.cut_data ? " data" : "");
  });
  later(Micros(20'000), Micros(9'000'000), [this, &host] {
    if (host.cut_up || host.cut_down || host.cut_data) heal_host(host);
  });
}

void Scenario::supervisor_fault() {
  SupervisorProcess& supervisor = *world_->supervisor;
  // Records that did not fit on a full disk are lost with the process that held them; nothing is guaranteed for them.
  if (supervisor.crashed() || world_->disk.misses_records()) return;
  if (rng_.chance(0.15)) {
    world_->log("disk", [] { return "is full"; });
    world_->disk.full = true;
    return later(Micros(100'000), Micros(5'000'000), [this] { world_->disk.full = false; });
  }
  if (rng_.chance(0.5)) {
    supervisor.crash_amid_actions(rng_.below(12));
  } else {
    supervisor.crash();
  }
}

void Scenario::supervisor_lost() {
  world_->supervisor_was_lost = true;
  later(Micros(50'000), Micros(4'000'000), [this] { resume_supervisor(); });
  if (!healed_ && !world_->disk.misses_records() && power_.chance(0.25)) cut_supervisors_power();
}

// Its machine comes back, and the supervisor with it; what was not synced does not, and the agents there are gone.
void Scenario::cut_supervisors_power() {
  world_->log("supervisor", [] { return "its machine loses its power"; });
  world_->disk.lose_unsynced(power_);
  world_->lose_audits();
  world_->forget_drains();
  for (const auto& host : world_->hosts) {
    if (!host->local || !host->on) continue;
    world_->queue.after(Micros(0), [this, &host = *host] { world_->power_off(host); });
    world_->queue.after(power_.time(Micros(10'000), Micros(2'000'000)), [this, &host = *host] {
      if (!healed_) heal_host(host);
    });
  }
}

void Scenario::request() {
  SupervisorProcess& supervisor = *world_->supervisor;
  if (supervisor.crashed()) return;
  const core::RunSettings& settings = world_->setup.settings;
  const std::uint64_t request = supervisor.next_request();
  switch (rng_.below(8)) {
    case 0:
    case 1:
    case 2:
      return supervisor.ask(core::Resize{.request = request, .target = rng_.between(1, settings.max_workers + 1)});
    case 3:
    case 4:
      return supervisor.ask(core::ReplaceWorker{request, rng_.below(settings.max_workers)});
    case 5:
      return supervisor.ask(core::ReplaceHost{request, any_host().name});
    case 6: {
      Host& host = any_host();
      if (undrains_.chance(world_->drained.empty() ? 0.1 : 0.5)) {
        const bool any = world_->drained.empty();
        return supervisor.ask(core::UndrainHost{request, any ? host.name : *world_->drained.begin()});
      }
      host.away = true;
      return supervisor.ask(core::DrainHost{request, host.name});
    }
    default:
      if (!rng_.chance(0.3)) return;
      stop_requested_ = true;
      return supervisor.ask(
          core::Stop{request, rng_.chance(0.5) ? core::StopCause::kUser : core::StopCause::kPreempted});
  }
}

}  // namespace elastictrain::simulation
