// Scenarios with a target: once all faults are healed, the run must reach the size that is requested, replace a worker
// that leaves, keep both without being told, and end with the status of the request that ends it.
#include <algorithm>
#include <csignal>

#include "heuristics/batch_plan.h"
#include "supervisor/core/pure/invariants.h"
#include "tests/simulation/agent_process.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/supervisor_process.h"
#include "tests/simulation/worker_process.h"

namespace elastictrain::simulation {
namespace {

constexpr Millis kHostsReturn{15'000};  // until hosts that were drained are offered again
constexpr Millis kSlice{2'000};
constexpr int kSlicesAtTarget = 4;
constexpr int kMaxSlices = 900;

}  // namespace

void Scenario::draw_target_settings(Setup& setup) {
  heuristics::BatchRule& batch = setup.settings.batch;
  if (targets_.chance(0.5)) batch.max_global = batch.per_worker * std::uint64_t{targets_.between(1, 8)};
  if (targets_.chance(0.5)) batch.at_limit = heuristics::AtLimit::kStop;
  has_target_ = targets_.chance(0.4);
  if (!has_target_) return;
  setup.program.epochs = 1'000'000;
  setup.program.max_steps = 0;
  setup.program.compute_min *= 5;  // the run is long and its steps need not be many
  setup.program.compute_max *= 5;
}

void Scenario::reach_target() {
  world_->run_until(world_->queue.now() + kHostsReturn);
  if (over()) return;
  SupervisorProcess& present = *world_->supervisor;
  // The request to stop may be lost with the supervisor that got it.
  if (stop_requested_) return present.ask(core::Stop{present.next_request(), core::StopCause::kUser});
  run_until_target("the last fault");
  if (over()) return;
  hidden_losses_ = std::count_if(world_->workers.begin(), world_->workers.end(),
                                 [](const auto& entry) { return entry.second->hangs(); });
  const core::RunSettings& settings = world_->setup.settings;
  target_ = targets_.between(settings.min_workers, settings.max_workers);
  SupervisorProcess& supervisor = *world_->supervisor;
  supervisor.ask(core::Resize{.request = supervisor.next_request(), .target = target_});
  run_until_target("the request");
  if (!over() && settings.keeps_warm) shrink_and_grow();
  if (!over() && settings.leased) check_lease();
  if (!over()) check_notice();
  if (!over()) end_by_request();
}

// What the run lacks; empty at the target. Before a size is requested, any will do.
std::string Scenario::away_from_target() const {
  const core::RunSettings& settings = world_->setup.settings;
  const std::uint32_t slots = settings.leased ? world_->leased_slots() : settings.max_workers + settings.spares;
  const std::uint32_t size =
      std::min({target_, std::max(heuristics::max_workers(settings.batch), settings.min_workers), slots});
  const std::uint32_t wanted_spares = std::min(settings.spares, slots - size);
  const core::RunView view = world_->supervisor->machine().view();
  if (view.phase == core::RunPhase::kRunning && target_ == 0) return {};
  for (const core::WorkerView& worker : view.workers) {
    if (settings.leased && !world_->leases(worker.host, worker.slot)) {
      return to_string(worker.worker) + " is on a slot that is not leased to the run";
    }
  }
  const auto spares = std::count_if(view.workers.begin(), view.workers.end(), [](const core::WorkerView& worker) {
    return worker.phase == core::WorkerPhase::kSpare;
  });
  if (view.phase == core::RunPhase::kRunning && view.world_size == size && spares == wanted_spares &&
      view.workers.size() == size + wanted_spares) {
    return {};
  }
  return std::string("the run is ") + core::name_of(view.phase) + " with " + std::to_string(view.world_size) + " of " +
         std::to_string(size) + " members, " + std::to_string(spares) + " of " + std::to_string(wanted_spares) +
         " spares and " + std::to_string(view.workers.size()) + " workers in all";
}

// At the target for some time, with steps committed: then no member is stuck and nothing is left to be done.
void Scenario::run_until_target(const std::string& after) {
  Step since = 0;
  int good = 0;
  for (int slice = 0; slice < kMaxSlices && !over(); ++slice) {
    world_->run_until(world_->queue.now() + kSlice);
    // Only a start can fail, the first one or one from a checkpoint.
    if (world_->exit_status && world_->supervisor->machine().view().generation != 0) {
      if (below_min_ends_ && world_->exit_reason.find("no worker joined within") != std::string::npos) return;
      return world_->violated("target_is_reached", "the run ended after " + after + ": " + world_->exit_reason);
    }
    if (!away_from_target().empty()) {
      good = 0;
      ask_again_after_hidden_loss();
      continue;
    }
    if (good++ == 0) since = world_->oracle.surviving_steps();
    if (good < kSlicesAtTarget || world_->oracle.surviving_steps() == since) continue;
    world_->undisturbed = true;
    return check_warm(after);
  }
  if (!over()) world_->violated("target_is_reached", "after " + after + " " + away_from_target());
}

// A process without a worker costs nobody a slot: it waits only where a worker of the run may start, and none is.
void Scenario::check_warm(const std::string& after) {
  const core::RunView view = world_->supervisor->machine().view();
  for (const auto& [id, agent] : world_->agents) {
    for (const auto& process : agent->warm()) {
      const std::string host = agent->host().name;
      const bool shared = std::any_of(view.workers.begin(), view.workers.end(), [&](const core::WorkerView& worker) {
        return worker.host == host && worker.slot == process.slot;
      });
      const bool usable = !world_->setup.settings.leased || world_->leases(host, process.slot);
      if (world_->setup.settings.keeps_warm && usable && !shared && !world_->drained.contains(host)) continue;
      world_->violated("warm_is_alone", "after " + after + " the process that was " + to_string(process.worker) +
                                            " waits in slot " + std::to_string(process.slot) + " of " + host +
                                            (shared ? ", where a worker is" : ", which the run may not use"));
    }
  }
}

// That a spare hangs shows only when it is to train, after the last fault. Where a loss lowers the size, this one does,
// and the user asks again.
void Scenario::ask_again_after_hidden_loss() {
  const core::RunSettings& settings = world_->setup.settings;
  SupervisorProcess& supervisor = *world_->supervisor;
  if (hidden_losses_ == 0 || settings.failures.on_failure != core::OnFailure::kShrink) return;
  if (supervisor.machine().view().target_size >= target_) return;
  --hidden_losses_;
  supervisor.ask(core::Resize{.request = supervisor.next_request(), .target = target_});
}

// A shrink leaves processes that wait. Growth takes them back; a lease that follows may need their slots.
void Scenario::shrink_and_grow() {
  const core::RunSettings& settings = world_->setup.settings;
  const auto resize = [&](std::uint32_t size) {
    target_ = size;
    SupervisorProcess& supervisor = *world_->supervisor;
    supervisor.ask(core::Resize{.request = supervisor.next_request(), .target = size});
  };
  const auto waits = [](const auto& entry) { return !entry.second->warm().empty(); };
  resize(settings.max_workers);
  run_until_target("a growth");
  if (over()) return;
  resize(settings.min_workers);
  for (int slice = 0; slice < kMaxSlices && !over() &&
                      std::none_of(world_->agents.begin(), world_->agents.end(), waits) && !away_from_target().empty();
       ++slice) {
    world_->run_until(world_->queue.now() + Millis(100));
  }
  if (over() || settings.leased) return;
  resize(targets_.between(settings.min_workers, settings.max_workers));
  run_until_target("a growth after a shrink");
}

// The size and the slots follow one lease after the other, the last of which is for all slots again.
void Scenario::check_lease() {
  for (int round = 0; round < 2 && !over(); ++round) {
    draw_lease(world_->setup.settings.min_workers);
    if (round == 1) {
      for (const auto& host : world_->hosts) {
        host->leased.clear();
        for (std::uint32_t slot = 0; slot < host->slots; ++slot) host->leased.push_back(slot);
      }
    }
    world_->supervisor->offer_hosts();
    run_until_target("a lease");
  }
}

// A worker that alone gets TERM leaves, and the size stays.
void Scenario::check_notice() {
  if (targets_.chance(0.5)) return;
  const core::RunView view = world_->supervisor->machine().view();
  const WorkerId noticed = view.workers[targets_.below(view.world_size)].worker;
  WorkerProcess* process = world_->worker(noticed);
  if (process == nullptr || process->noticed()) return;
  world_->undisturbed = false;
  process->notice();
  run_until_target("a notice");
  // On a full device it would leave before its successor starts, and that many must train.
  const bool must_train = world_->setup.full_devices && view.world_size <= world_->setup.settings.min_workers;
  if (!over() && world_->worker(noticed) != nullptr && !must_train) {
    world_->violated("notice_is_followed", to_string(noticed) + " stays in spite of its notice");
  }
}

void Scenario::end_by_request() {
  // Asked for each time: another one may have taken over.
  const auto supervisor = [&]() -> SupervisorProcess& { return *world_->supervisor; };
  const auto resize = [&](std::uint32_t size) {
    supervisor().ask(core::Resize{.request = supervisor().next_request(), .target = size});
  };
  const std::uint32_t way = targets_.below(3);
  expected_status_ = way == 2 ? 75 : 0;
  if (targets_.chance(0.3)) resize(world_->setup.settings.max_workers);
  world_->run_until(world_->queue.now() + Millis(targets_.below(4'000)));
  bool kills = targets_.chance(0.5);
  if (kills && targets_.chance(0.5)) kills = kill_one_of_many();
  if (way == 0) {
    world_->setup.program.max_steps = world_->oracle.surviving_steps() + 3;
  } else {
    stop_requested_ = true;
    const auto cause = way == 1 ? core::StopCause::kUser : core::StopCause::kPreempted;
    supervisor().ask(core::Stop{supervisor().next_request(), cause});
  }
  world_->run_until(world_->queue.now() + Millis(targets_.below(300)));
  if (kills && !world_->exit_status) kill_one_of_many();
  if (!world_->exit_status && !world_->supervisor->crashed()) resize(1);
}

// A member, but never the last ones: the end of the run is the same without it.
bool Scenario::kill_one_of_many() {
  if (world_->exit_status) return false;
  const core::RunView view = world_->supervisor->machine().view();
  // Of a generation that lost its workers the size may be all that is left.
  if (view.world_size <= 2 || view.workers.size() < view.world_size) return false;
  // With a short wait for others, the run may rightly end where too few are left.
  if (below_min_ends_ && view.world_size <= world_->setup.settings.min_workers) return false;
  world_->undisturbed = false;
  WorkerProcess* process = world_->worker(view.workers[targets_.below(view.world_size)].worker);
  if (process != nullptr) process->die(0, SIGKILL);
  return true;
}

}  // namespace elastictrain::simulation
