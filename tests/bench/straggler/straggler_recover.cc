// Purpose: throughput after a straggler was replaced, and after its share was reduced, on the worker model with
// recorded noise. Usage: straggler_recover RECORDED.csv. One line per case, as `key=value` fields.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "heuristics/simulate/job_model.h"
#include "heuristics/straggler/policy.h"
#include "tests/unit/heuristics/straggler/recorded_noise.h"

namespace {

using namespace elastictrain::heuristics;

constexpr std::uint64_t kSteps = 500;  // of each measurement

// The median step time of these steps, in s. A mean would depend on single spikes of the recorded noise.
double median_step_s(WorkerModel& run, const Policy& policy, PolicyState& state, Rng& rng) {
  std::vector<double> steps;
  for (std::uint64_t i = 0; i < kSteps; ++i) {
    const ClusterView& view = run.step();
    steps.push_back(view.jobs[0].members[0].step_s);
    run.carry_out(policy.decide(view, state, rng));
  }
  std::nth_element(steps.begin(), steps.begin() + kSteps / 2, steps.end());
  return steps[kSteps / 2];
}

void print_case(const RecordedNoise& noise, const std::string& action, std::uint32_t workers, double factor) {
  const PolicySpec spec = straggler_policy();
  const auto policy = spec.make(check_parameters(spec, {{"action", action}}).parameters);
  const auto state = policy->initial_state();
  Rng rng(1);
  WorkerModelOptions options;
  options.hosts = workers;
  options.workers_per_host = 1;
  options.slots_per_host = 2;
  options.noise = [&](std::uint64_t worker, std::uint64_t step) { return noise(worker, step, 5); };
  WorkerModel run(options);
  const double usual_s = run.expected_compute_s() + options.communicate_s;
  const double before_s = median_step_s(run, *policy, *state, rng);
  run.add({SlowCause::Of::kWorker, 2, factor, kSteps});
  median_step_s(run, *policy, *state, rng);  // until it has settled
  const double after_s = median_step_s(run, *policy, *state, rng);
  // The best possible speed of the remaining workers without noise.
  const double best = usual_s / (run.best_compute_s() + options.communicate_s);
  std::printf("action=%s workers=%u slower_percent=%.0f after_percent_of_before=%.2f best_percent=%.2f\n",
              action.c_str(), workers, 100 * (factor - 1), 100 * before_s / after_s, 100 * best);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: straggler_recover RECORDED.csv\n");
    return 64;
  }
  const RecordedNoise noise = RecordedNoise::read(argv[1]);
  if (noise.empty()) {
    std::fprintf(stderr, "cannot read %s\n", argv[1]);
    return 66;
  }
  for (const char* action : {"replace", "rebalance"}) {
    for (const std::uint32_t workers : {4U, 64U}) {
      for (const double factor : {1.2, 1.5, 2.0}) print_case(noise, action, workers, factor);
    }
  }
  return 0;
}
