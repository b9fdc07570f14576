// Purpose: measures how soon each detector reports a straggler among simulated workers whose noise was recorded from
// real ones, and how often it reports a worker that is not slow. Usage: straggler_detect RECORDED.csv|heavy-tailed
// [DETECTOR]. One line per case, as `key=value` fields.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "heuristics/simulate/job_model.h"
#include "heuristics/straggler/published.h"
#include "heuristics/straggler/robust.h"
#include "tests/unit/heuristics/straggler/recorded_noise.h"

namespace {

using namespace elastictrain::heuristics;

constexpr std::uint64_t kHealthySteps = 200;
constexpr std::uint64_t kMaxSteps = 1000;  // after the slow-down; a straggler not reported by then counts as missed
constexpr std::uint64_t kQuietSteps = 10'000;
constexpr std::uint64_t kTrials = 20;

struct Named {
  const char* name;
  std::function<std::unique_ptr<Detector>()> make;
};

std::vector<Named> detectors() {
  return {{"robust", [] { return make_robust_detector({}); }},
          {"ewma", [] { return make_ewma_detector({}); }},
          {"nvidia", [] { return make_nvidia_detector({}); }},
          {"dlrover", [] { return make_dlrover_detector(2); }}};
}

WorkerModel model(const RecordedNoise& noise, std::uint32_t workers, std::uint64_t seed) {
  WorkerModelOptions options;
  options.hosts = workers;
  options.workers_per_host = options.slots_per_host = 1;
  options.noise = [&noise, seed](std::uint64_t worker, std::uint64_t step) { return noise(worker, step, seed); };
  return WorkerModel(options);
}

// Steps from the slow-down until the straggler is reported; none: missed.
std::optional<std::uint64_t> steps_until_named(const RecordedNoise& noise, const Named& named, std::uint32_t workers,
                                               double factor, std::uint64_t seed) {
  WorkerModel run = model(noise, workers, seed);
  const std::uint64_t victim = 1 + seed % (workers - 1);
  run.add({SlowCause::Of::kWorker, victim, factor, kHealthySteps});
  const auto detector = named.make();
  for (std::uint64_t step = 0; step < kHealthySteps + kMaxSteps; ++step) {
    const ClusterView& view = run.step();
    for (const SlowWorker& slow : detector->observe(view.jobs[0], view.now_s)) {
      if (step >= kHealthySteps && slow.worker == victim) return step - kHealthySteps + 1;
    }
  }
  return std::nullopt;
}

void print_delays(const RecordedNoise& noise, const Named& named, std::uint32_t workers, double factor) {
  std::vector<std::uint64_t> delays;
  std::uint64_t missed = 0;
  for (std::uint64_t seed = 1; seed <= kTrials; ++seed) {
    const auto delay = steps_until_named(noise, named, workers, factor, seed);
    missed += delay ? 0 : 1;
    delays.push_back(delay.value_or(kMaxSteps));
  }
  std::sort(delays.begin(), delays.end());
  std::printf("detector=%s workers=%u slower_percent=%.0f median_steps=%llu worst_steps=%llu missed=%llu trials=%llu\n",
              named.name, workers, 100 * (factor - 1), static_cast<unsigned long long>(delays[kTrials / 2]),
              static_cast<unsigned long long>(delays.back()), static_cast<unsigned long long>(missed),
              static_cast<unsigned long long>(kTrials));
}

// Number of new reports while no worker is slow.
void print_false_alarms(const RecordedNoise& noise, const Named& named, std::uint32_t workers, std::uint64_t seed,
                        std::uint64_t steps) {
  WorkerModel run = model(noise, workers, seed);
  const auto detector = named.make();
  std::set<std::uint64_t> before;
  std::uint64_t alarms = 0;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const ClusterView& view = run.step();
    std::set<std::uint64_t> now;
    for (const SlowWorker& slow : detector->observe(view.jobs[0], view.now_s)) {
      alarms += before.count(slow.worker) == 0 ? 1 : 0;
      now.insert(slow.worker);
    }
    before = std::move(now);
  }
  std::printf("detector=%s workers=%u as_recorded=%d false_alarms=%llu steps=%llu\n", named.name, workers, seed == 0,
              static_cast<unsigned long long>(alarms), static_cast<unsigned long long>(steps));
}

std::optional<RecordedNoise> noise_of(const std::string& source) {
  if (source == "heavy-tailed") return RecordedNoise::heavy_tailed(64, kQuietSteps, 0.05, 1);
  RecordedNoise noise = RecordedNoise::read(source);
  if (noise.empty()) return std::nullopt;
  return noise;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: straggler_detect RECORDED.csv|heavy-tailed [DETECTOR]\n");
    return 64;
  }
  const auto noise = noise_of(argv[1]);
  if (!noise) {
    std::fprintf(stderr, "cannot read %s\n", argv[1]);
    return 66;
  }
  for (const Named& named : detectors()) {
    if (argc == 3 && argv[2] != std::string(named.name)) continue;
    for (const std::uint32_t workers : {4U, 64U}) {
      for (const double factor : {1.1, 1.2, 1.5, 2.0}) print_delays(*noise, named, workers, factor);
      print_false_alarms(*noise, named, workers, 7, kQuietSteps);
    }
    print_false_alarms(*noise, named, static_cast<std::uint32_t>(noise->workers()), 0, noise->steps());
  }
  return 0;
}
