#include "heuristics/straggler/robust.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>

#include "heuristics/simulate/job_model.h"
#include "tests/unit/heuristics/straggler/recorded_noise.h"

namespace elastictrain::heuristics {
namespace {

const std::string kData = ELASTICTRAIN_STRAGGLER_DATA "/";

using Noise = std::function<double(std::uint64_t worker, std::uint64_t step)>;

// Independent normal noise of this deviation, the same for the same worker and step.
Noise normal_noise(double deviation) {
  return [deviation](std::uint64_t worker, std::uint64_t step) {
    std::mt19937_64 random(worker * 1'000'003 + step);
    random.discard(3);
    return std::exp(deviation * std::normal_distribution<double>()(random));
  };
}

WorkerModel model(std::uint32_t hosts, std::uint32_t workers_per_host, Noise noise) {
  WorkerModelOptions options;
  options.hosts = hosts;
  options.workers_per_host = options.slots_per_host = workers_per_host;
  options.noise = std::move(noise);
  return WorkerModel(options);
}

// Observes a model and records when each worker was first reported, counted from the beginning.
struct Watching {
  WorkerModel run;
  std::unique_ptr<Detector> detector = make_robust_detector({});
  std::map<std::uint64_t, std::uint64_t> named_at{};
  std::vector<SlowWorker> slow{};

  void steps(std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      const ClusterView& view = run.step();
      slow = detector->observe(view.jobs[0], view.now_s);
      for (const SlowWorker& worker : slow) named_at.emplace(worker.worker, run.steps_done());
    }
  }
};

TEST_CASE("a straggler is named within 20 steps from 20 % up, one of 4 and one of 64") {
  for (const std::uint32_t workers : {4U, 64U}) {
    for (const double factor : {1.2, 1.5, 2.0, 10.0}) {
      CAPTURE(workers);
      CAPTURE(factor);
      Watching watching{model(workers, 1, normal_noise(0.02))};
      watching.run.add({SlowCause::Of::kWorker, 2, factor, 100});
      watching.steps(120);
      REQUIRE(watching.named_at.size() == 1);
      CHECK(watching.named_at.count(2) == 1);
      CHECK(watching.slow[0].slowdown == doctest::Approx(factor).epsilon(0.02));
    }
  }
}

TEST_CASE("a worker that is slow from the start is named") {
  Watching watching{model(4, 1, normal_noise(0.02))};
  watching.run.add({SlowCause::Of::kWorker, 0, 1.2, 0});
  watching.steps(20);
  CHECK(watching.named_at.count(0) == 1);
  CHECK(watching.named_at.size() == 1);
}

TEST_CASE("with two workers the own past shows which one became slow") {
  // From the start one takes 1.3 times as long: it is impossible to tell which one is normal.
  Watching watching{model(2, 1, normal_noise(0.02))};
  watching.run.add({SlowCause::Of::kWorker, 1, 1.3, 0});
  watching.steps(300);
  CHECK(watching.named_at.empty());
  watching.run.add({SlowCause::Of::kWorker, 1, 1.3, 300});
  watching.steps(20);
  CHECK(watching.named_at.size() == 1);
  CHECK(watching.named_at.count(1) == 1);
}

TEST_CASE("with two workers none is slow because the other one, or the work, became faster") {
  Watching faster{model(2, 1, normal_noise(0.02))};
  faster.run.add({SlowCause::Of::kWorker, 1, 0.7, 200});
  faster.steps(600);
  CHECK(faster.named_at.empty());
  Watching work{model(2, 1, normal_noise(0.02))};
  for (const std::uint64_t worker : {0, 1}) work.run.add({SlowCause::Of::kWorker, worker, 1.8, 200});
  work.steps(600);
  CHECK(work.named_at.empty());
}

TEST_CASE("slowness that creeps up is named once it is large enough") {
  for (const std::uint32_t workers : {2U, 8U}) {
    CAPTURE(workers);
    Watching watching{model(workers, 1, normal_noise(0.02))};
    watching.run.add({SlowCause::Of::kWorker, 1, 1.3, 200, UINT64_MAX, 3000});  // a percent in 100 steps
    watching.steps(800);
    CHECK(watching.named_at.empty());  // six percent
    watching.steps(1200);              // eighteen
    CHECK(watching.named_at.count(1) == 1);
  }
}

TEST_CASE("spikes are passed over, however large") {
  const Noise quiet = normal_noise(0.02);
  const Noise spikes = [=](std::uint64_t worker, std::uint64_t step) {
    return quiet(worker, step) * ((step + 7 * worker) % 20 < 2 ? 100.0 : 1.0);
  };
  Watching watching{model(8, 1, spikes)};
  watching.steps(2000);
  CHECK(watching.named_at.empty());
}

TEST_CASE("a slowness must last longer than those that passed by themselves") {
  Watching watching{model(8, 1, normal_noise(0.02))};
  for (std::uint64_t begin = 100; begin < 1000; begin += 100) {
    watching.run.add({SlowCause::Of::kWorker, 3, 2, begin, begin + 12});
  }
  watching.steps(1000);
  CHECK(watching.named_at.empty());
  watching.run.add({SlowCause::Of::kWorker, 3, 2, 1000, 1017});  // 15 would be enough without that past
  watching.steps(17);
  CHECK(watching.named_at.empty());
  watching.steps(100);
  watching.run.add({SlowCause::Of::kWorker, 3, 2, 1117});
  watching.steps(40);
  CHECK(watching.named_at.count(3) == 1);
}

TEST_CASE("a worker that recovers is no longer slow") {
  Watching watching{model(8, 1, normal_noise(0.02))};
  watching.run.add({SlowCause::Of::kWorker, 3, 1.5, 100, 150});
  watching.steps(150);
  CHECK(watching.slow.size() == 1);
  watching.steps(15);
  CHECK(watching.slow.empty());
}

TEST_CASE("half of the workers can be slow") {
  Watching watching{model(2, 4, normal_noise(0.02))};
  watching.run.add({SlowCause::Of::kHost, 1, 1.3, 100});
  watching.steps(120);
  CHECK(watching.slow.size() == 4);
  CHECK(watching.named_at.count(0) == 0);
}

TEST_CASE("the slowest worker of a wide distribution is not reported") {
  // Speeds spread evenly over a fifth: the last one is slower than the median, but not beyond the others.
  Watching watching{model(16, 1, normal_noise(0.02))};
  for (std::uint64_t worker = 0; worker < 16; ++worker) {
    watching.run.add({SlowCause::Of::kWorker, worker, 1 + 0.2 * static_cast<double>(worker) / 15, 0});
  }
  watching.steps(1000);
  CHECK(watching.named_at.empty());
}

TEST_CASE("uneven shares are no slowness, whatever part of a step does not depend on them") {
  for (const double fixed_s : {0.0, 0.1, 1.0}) {
    CAPTURE(fixed_s);
    WorkerModelOptions options;
    options.hosts = 4;
    options.workers_per_host = options.slots_per_host = 1;
    options.batch = {.per_worker = 32, .max_global = 6};  // shares 2 2 1 1
    options.fixed_s = fixed_s;
    options.noise = normal_noise(0.01);
    Watching watching{WorkerModel(options)};
    watching.steps(300);
    CHECK(watching.named_at.empty());
  }
}

TEST_CASE("while membership changes a slowness must last twice as long") {
  const auto steps_until_named = [](bool changing) {
    const auto detector = make_robust_detector({});
    WorkerModel run = model(4, 1, nullptr);
    run.add({SlowCause::Of::kWorker, 2, 2, 0});
    int steps = 0;
    for (bool named = false; !named && steps < 200; ++steps) {
      ClusterView view = run.step();
      view.jobs[0].changing = changing;
      named = !detector->observe(view.jobs[0], view.now_s).empty();
    }
    return steps;
  };
  const int usual = steps_until_named(false);
  CHECK(steps_until_named(true) >= 2 * usual - 2);
  CHECK(steps_until_named(true) <= 2 * usual + 2);
}

TEST_CASE("views over many steps count as one observation each, and need some of them") {
  const auto detector = make_robust_detector({});
  WorkerModel run = model(4, 1, nullptr);
  run.add({SlowCause::Of::kWorker, 2, 1.5, 0});
  int views = 0;
  for (bool named = false; !named && views < 100; ++views) {
    ClusterView view = run.step();
    for (WorkerView& member : view.jobs[0].members) member.steps = 50;
    named = !detector->observe(view.jobs[0], 10.0 * run.steps_done()).empty();
  }
  CHECK(views == 4);
}

// Views of half a second of four workers with steps of 64 ms, in which worker 2 takes 1.5 times as long from `begin_s`
// to `end_s`. The time until it is named; 0: it is not.
double named_after(double begin_s, double end_s) {
  constexpr double kView_s = 0.5, kSlower = 1.5;
  const auto detector = make_robust_detector({});
  JobView job{.workers = 4};
  for (std::uint32_t rank = 0; rank < 4; ++rank) job.members.push_back({.id = rank, .rank = rank, .share = 16});
  for (int view = 1; view <= 40; ++view) {
    const double now_s = view * kView_s;
    const double slow_s = std::max(0.0, std::min(now_s, end_s) - std::max(now_s - kView_s, begin_s));
    const double mean = 1 / (1 - slow_s / kView_s * (kSlower - 1) / kSlower);  // of the steps, in times the usual one
    for (WorkerView& member : job.members) {
      const bool is_slow = member.id == 2;
      member.compute_s = 0.064 * (is_slow ? mean : 1);
      member.steps = is_slow && slow_s > 0 ? 5 : 8;
    }
    if (!detector->observe(job, now_s).empty()) return now_s - begin_s;
  }
  return 0;
}

// From 10.00 s on four views are slow for 2 s. From 10.25 s on, four of them show 1.75 s, and five 2.25 s.
TEST_CASE("a slowness begins and ends within a view, and is named after two seconds and at most one more view") {
  CHECK(named_after(10, 100) == doctest::Approx(2));
  CHECK(named_after(10.25, 100) == doctest::Approx(2.25));
  for (int phase = 0; phase < 50; ++phase) {
    const double begin_s = 10 + phase / 100.0;
    CAPTURE(begin_s);
    CHECK(named_after(begin_s, 100) >= 2 - 1e-9);
    CHECK(named_after(begin_s, 100) <= 2.5 + 1e-9);
    for (const double lasts_s : {1.5, 1.7, 1.9}) CHECK(named_after(begin_s, begin_s + lasts_s) == 0);
  }
}

// 3.25 ln 1.08 / (ln 1.12 - ln 1.08) = 6.9 views, of half a second each.
TEST_CASE("a slowness that is hardly beyond the least one is named after seven views") {
  const auto detector = make_robust_detector({});
  WorkerModel run = model(4, 1, nullptr);
  run.add({SlowCause::Of::kWorker, 2, 1.12, 0});
  int views = 0;
  for (bool named = false; !named && views < 100; ++views) {
    ClusterView view = run.step();
    for (WorkerView& member : view.jobs[0].members) member.steps = 8;
    named = !detector->observe(view.jobs[0], 0.5 * static_cast<double>(run.steps_done())).empty();
  }
  CHECK(views == 7);
}

TEST_CASE("a worker whose figures are late is compared with what the others showed last") {
  const auto detector = make_robust_detector({});
  WorkerModel run = model(4, 1, normal_noise(0.02));
  run.add({SlowCause::Of::kWorker, 2, 1.5, 100});
  std::vector<SlowWorker> slow;
  for (std::uint64_t step = 0; step < 220; ++step) {
    ClusterView view = run.step();
    for (WorkerView& member : view.jobs[0].members) member.steps = step % 4 == member.id ? 4 : 0;
    slow = detector->observe(view.jobs[0], view.now_s);
  }
  REQUIRE(slow.size() == 1);
  CHECK(slow[0].worker == 2);
}

TEST_CASE("a copy behaves like the original") {
  WorkerModel run = model(4, 1, normal_noise(0.05));
  run.add({SlowCause::Of::kWorker, 2, 1.2, 50});
  const auto original = make_robust_detector({});
  std::unique_ptr<Detector> copy;
  for (int step = 0; step < 100; ++step) {
    const ClusterView& view = run.step();
    const auto slow = original->observe(view.jobs[0], view.now_s);
    if (copy) CHECK(copy->observe(view.jobs[0], view.now_s).size() == slow.size());
    if (step == 55) copy = original->clone();
  }
}

// Number of the `workers` that are reported in `steps` steps in which none is slow.
std::size_t false_alarms(const RecordedNoise& noise, std::uint32_t workers, std::uint64_t seed, std::uint64_t steps) {
  Watching watching{
      model(workers, 1, [&](std::uint64_t worker, std::uint64_t step) { return noise(worker, step, seed); })};
  watching.steps(steps);
  return watching.named_at.size();
}

TEST_CASE("no false alarm in 10,000 steps of noise of real workers") {
  for (const char* file : {"own_cores.csv", "half_cores.csv"}) {
    CAPTURE(file);
    const RecordedNoise noise = RecordedNoise::read(kData + file);
    REQUIRE_FALSE(noise.empty());
    CHECK(false_alarms(noise, static_cast<std::uint32_t>(noise.workers()), 0, noise.steps()) == 0);
    CHECK(false_alarms(noise, 4, 3, 10'000) == 0);
    CHECK(false_alarms(noise, 64, 4, 10'000) == 0);
  }
}

TEST_CASE("shared processors make steps a hundred times longer, and still no worker is reported") {
  // At the recorded speed, because so many of these steps are short. In the last 200 of them the first worker really is
  // slow, 26 times in the median.
  const RecordedNoise noise = RecordedNoise::read(kData + "shared_cores.csv");
  REQUIRE_FALSE(noise.empty());
  WorkerModelOptions options;
  options.hosts = 2;
  options.workers_per_host = options.slots_per_host = 1;
  options.sample_s = noise.median_s() / options.batch.per_worker;
  options.communicate_s = 0.001;
  options.noise = [&](std::uint64_t worker, std::uint64_t step) { return noise(worker, step, 0); };
  Watching watching{WorkerModel(options)};
  watching.steps(1700);
  CHECK(watching.named_at.empty());
}

TEST_CASE("heavy tails, lasting noise and bursts of ten steps hardly ever make a false alarm") {
  const RecordedNoise noise = RecordedNoise::heavy_tailed(16, 10'000, 0.05, 1);
  CHECK(false_alarms(noise, 16, 0, 10'000) <= 1);
}

}  // namespace
}  // namespace elastictrain::heuristics
