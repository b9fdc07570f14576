#include "cli/commands/simulate_runs.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "launcher/agent/host_facts.h"

namespace elastictrain::cli {
namespace {

using heuristics::cluster::Change;

void simulate_one(SimulatedRun& run, bool keep_changes) {
  const auto start = std::chrono::steady_clock::now();
  std::function<void(const Change&)> watch;
  if (keep_changes) watch = [&](const Change& change) { run.changes.push_back(change); };
  run.outcome = heuristics::cluster::simulate(*run.trace, *run.policy, run.options, watch);
  if (run.outcome.problem.empty()) {
    run.figures = heuristics::cluster::figures_of(*run.trace, run.outcome, run.options.slots);
  }
  run.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

void simulate_all(std::vector<SimulatedRun>& runs, bool keep_first_changes,
                  const std::function<void(std::size_t)>& done) {
  std::atomic<std::size_t> next = 0;
  std::size_t ended = 0;
  std::mutex mutex;
  const auto work = [&] {
    for (std::size_t place = next++; place < runs.size(); place = next++) {
      simulate_one(runs[place], keep_first_changes && place == 0);
      const std::lock_guard lock(mutex);
      done(++ended);
    }
  };
  std::vector<std::thread> threads;
  const std::size_t cores = launcher::usable_cores();
  for (std::size_t i = 1; i < std::min(cores, runs.size()); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace elastictrain::cli
