#include "heuristics/goodput/goodput_policy.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "heuristics/compose/compose.h"
#include "heuristics/goodput/goodput_model.h"
#include "tests/unit/heuristics/batch/batch_job.h"

namespace elastictrain::heuristics {
namespace {

using doctest::Approx;
using testing::BatchJob;
using testing::make_policy;
using testing::run_batch_job;

// Four workers on a host; between hosts 0.15 s, and 0.01 s for each further worker.
constexpr GoodputParameters kTrue{.compute_s = 0.05,
                                  .compute_s_per_sample = 0.005,
                                  .net_s = 0.15,
                                  .net_s_per_worker = 0.01,
                                  .local_s = 0.01,
                                  .local_s_per_worker = 0.001,
                                  .overlap = 2};

GoodputPlace place_of(std::uint32_t workers) {
  return {.hosts = (workers + 3) / 4, .workers = workers};
}

BatchJob job_of(double noise_scale) {
  BatchJob model;
  model.step_s = [](std::uint32_t workers, double batch) { return step_s(kTrue, place_of(workers), batch); };
  model.noise = 0.05;
  model.noise_scale = [=](double) { return noise_scale; };
  model.slots_per_host = 4;
  model.job.workers = 2;
  model.job.max_workers = 64;
  model.job.batch.per_worker = 32;
  model.job.base_batch = 64;
  return model;
}

double true_utility(double noise_scale, std::uint32_t workers) {
  const GoodputJob job{.parameters = kTrue, .noise_scale = noise_scale, .base_batch = 64, .max_local = 256};
  return best_batch(job, place_of(workers)).goodput / best_batch(job, place_of(1)).goodput / workers;
}

TEST_CASE("the size ends where the true utility is in the band, and stays") {
  for (const double noise_scale : {300.0, 2000.0, 20000.0}) {
    CAPTURE(noise_scale);
    const auto run = run_batch_job(*make_policy(goodput_policy()), job_of(noise_scale), 4 * 3600);
    CAPTURE(run.job.workers);
    const double utility = true_utility(noise_scale, run.job.workers);
    CHECK((utility > 0.3 && (utility < 0.7 || run.job.workers == 64)));
    CHECK(run.settings.size() < 20);
  }
}

TEST_CASE("a limit is named where the utility of the most workers is above the band, and not where it is within") {
  const auto text_at = [](std::uint32_t most) {
    BatchJob model = job_of(2000);
    model.job.max_workers = most;
    const auto run = run_batch_job(*with_limits(make_policy(goodput_policy())), model, 4 * 3600);
    CHECK(run.job.workers == most);
    CHECK(run.last.code == "settled");
    return run.last.text;
  };
  CHECK(text_at(2).find("workers.max allows no more") != std::string::npos);
  const auto within = run_batch_job(*make_policy(goodput_policy()), job_of(2000), 4 * 3600).job.workers;
  CHECK(text_at(within).find("workers.max") == std::string::npos);
}

TEST_CASE("what it says of a size is said of the one that trains") {
  const auto policy = make_policy(goodput_policy());
  testing::BatchLoop loop(*policy, job_of(20000), 1);
  for (double now_s = 10; now_s < 3600; now_s += 10) {
    const auto run = loop.run(now_s);
    if (run.last.code != "settled") continue;
    CAPTURE(now_s);
    CHECK(run.last.text.rfind(std::to_string(loop.live().world_size) + " workers: ", 0) == 0);
  }
  CHECK(loop.live().world_size > 2);
}

TEST_CASE("a job whose gradients are noisy is worth more workers and larger batches") {
  const auto quiet = run_batch_job(*make_policy(goodput_policy()), job_of(300), 2 * 3600);
  const auto noisy = run_batch_job(*make_policy(goodput_policy()), job_of(20000), 2 * 3600);
  CHECK(quiet.job.workers < noisy.job.workers);
  CHECK(quiet.job.batch.per_worker < noisy.job.batch.per_worker);
}

TEST_CASE("the batch can be left alone, and so can the size") {
  const auto fixed_batch = run_batch_job(*make_policy(goodput_policy(), {{"adapt_batch", false}}), job_of(2000), 3600);
  for (const auto& [workers, batch] : fixed_batch.settings) CHECK(batch == 32);
  CHECK(fixed_batch.job.workers > 2);
  const auto fixed_size = run_batch_job(*make_policy(goodput_policy(), {{"adapt_size", false}}), job_of(2000), 3600);
  for (const auto& [workers, batch] : fixed_size.settings) CHECK(workers == 2);
  CHECK(fixed_size.job.batch.per_worker > 32);
}

TEST_CASE("a cluster is told what other sizes would bring, also where the size is left alone") {
  auto model = job_of(2000);
  model.job.workers = 8;  // on two hosts
  const Parameters batch_only{{"adapt_size", false}};
  const auto run = run_batch_job(*make_policy(goodput_policy(), batch_only), model, 2 * 3600);
  REQUIRE(run.goodput.size() > 10);
  CHECK(run.goodput.front().workers == 1);
  CHECK(run.goodput.back().workers == 64);
  const GoodputJob truth{.parameters = kTrue, .noise_scale = 2000, .base_batch = 64, .max_local = 256};
  const auto found = [&](std::uint32_t workers) {
    return std::find_if(run.goodput.begin(), run.goodput.end(), [&](auto& at) { return at.workers == workers; })->rate;
  };
  const double here = best_batch(truth, place_of(8)).goodput;
  CHECK(found(8) == Approx(here).epsilon(0.1));
  CHECK(found(16) / found(8) == Approx(best_batch(truth, place_of(16)).goodput / here).epsilon(0.2));
  for (std::size_t i = 1; i < run.goodput.size(); ++i) {
    CHECK(run.goodput[i].workers > run.goodput[i - 1].workers);
    CHECK(run.goodput[i].rate > 0);
  }
}

TEST_CASE("without norms the size alone follows the throughput") {
  const auto run = run_batch_job(*make_policy(goodput_policy()), job_of(0), 3600);
  CHECK(run.job.batch.per_worker == 32);
  CHECK(run.job.workers > 2);
}

TEST_CASE("no size is tried that is more than twice what was seen") {
  const auto run = run_batch_job(*make_policy(goodput_policy()), job_of(20000), 3600);
  std::uint32_t max = 2;
  for (const auto& [workers, batch] : run.settings) {
    CHECK(workers <= 2 * max);
    max = std::max(max, workers);
  }
}

TEST_CASE("the batch of a single worker is the best one for the noise of its gradients") {
  auto model = job_of(2000);
  model.job.workers = model.job.max_workers = 1;
  model.job.base_batch = 32;
  const Parameters parameters{{"adapt_size", false}, {"max_per_worker", 256.0}};
  const auto run = run_batch_job(*make_policy(goodput_policy(), parameters), model, 3600);
  const GoodputJob job{.parameters = kTrue, .noise_scale = 2000, .base_batch = 32, .max_local = 256};
  const double best = best_batch(job, place_of(1)).goodput;
  CHECK(run.job.batch.per_worker != 32);
  CHECK(goodput(job, place_of(1), run.job.batch.per_worker) > 0.95 * best);
  model.reports_halves = false;
  CHECK(run_batch_job(*make_policy(goodput_policy(), parameters), model, 3600).settings.size() == 1);
}

// Without the time of a gradient, one size does not show how fast one worker is.
TEST_CASE("a job begun at several workers, whose gradients are not timed, ends where the true utility is in the band") {
  struct Job {
    double first_s;
    double each_s;
    std::uint32_t max;
    std::uint32_t start;
  };
  for (const Job& exchange :
       {Job{0, 0.003, 32, 2}, Job{0, 0.003, 32, 8}, Job{0, 0, 32, 8}, Job{0.1, 0.02, 8, 8}, Job{0, 0.012, 32, 8}}) {
    const auto step_of = [&](std::uint32_t workers) {
      return 0.064 + (workers > 1 ? exchange.first_s + exchange.each_s * (workers - 1) : 0);
    };
    const auto policy = make_policy(goodput_policy(),
                                    {{"adapt_batch", false}, {"settle_steps", 15.0}, {"refit_s", 2.0}, {"min_s", 2.0}});
    const auto state = policy->initial_state();
    Rng rng(1);
    ClusterView view;
    view.hosts.push_back({.name = "a", .slots = exchange.max});
    JobView job{.name = "j", .workers = exchange.start, .target = exchange.start, .max_workers = exchange.max};
    job.base_batch = job.batch.per_worker = 16;
    int changes = 0;
    for (int i = 0; i < 400; ++i) {
      job.global_batch = 16 * job.workers;
      job.members.assign(job.workers, {.steps = 5, .step_s = step_of(job.workers)});
      const double begin_s = std::exchange(view.now_s, view.now_s + 5 * step_of(job.workers));
      job.intervals = {{.begin_s = begin_s,
                        .end_s = view.now_s,
                        .workers = job.workers,
                        .steps = 5,
                        .samples = 5 * job.global_batch,
                        .global_batch = job.global_batch}};
      view.jobs = {job};
      const auto decision = policy->decide(view, *state, rng).jobs[0];
      if (decision.workers && *decision.workers != job.workers) ++changes;
      job.workers = job.target = decision.workers.value_or(job.workers);
    }
    const double utility = step_of(1) / step_of(job.workers);
    CAPTURE(exchange.start);
    CAPTURE(job.workers);
    CHECK(changes <= 6);
    CHECK((utility > 0.32 || job.workers == 1));
    CHECK((utility < 0.68 || job.workers == exchange.max));
  }
}

TEST_CASE("the learning rate follows the batch by the gain") {
  const auto policy = make_policy(goodput_policy(), {{"adapt_size", false}, {"settle_steps", 1.0}});
  const auto state = policy->initial_state();
  Rng rng(1);
  ClusterView view;
  view.hosts.push_back({.name = "a", .slots = 4});
  JobView job{.name = "j", .workers = 2, .target = 2, .max_workers = 4, .global_batch = 64, .base_batch = 64};
  job.members = {{.id = 0, .steps = 100, .compute_s = 0.21}, {.id = 1, .rank = 1, .steps = 100, .compute_s = 0.21}};
  JobDecision decision;
  for (int i = 1; i <= 5 && !decision.changes(); ++i) {
    view.now_s = 40 * i;
    job.intervals = {{.begin_s = view.now_s - 22, .end_s = view.now_s, .workers = 2, .steps = 100, .global_batch = 64}};
    job.norms = {.count = 100,
                 .local_square = 1 + 2000.0 / 32,
                 .global_square = 1 + 2000.0 / 64,
                 .local_batch = 32,
                 .global_batch = 64};
    view.jobs = {job};
    decision = policy->decide(view, *state, rng).jobs[0];
  }
  REQUIRE(decision.per_worker_batch);
  REQUIRE(decision.learning_rate_factor);
  const double global = 2.0 * *decision.per_worker_batch;
  CHECK(*decision.learning_rate_factor == Approx((2000.0 / 64 + 1) / (2000.0 / global + 1)));
}

TEST_CASE("a job whose exchange becomes slower is measured anew, and shrinks into the band") {
  const auto policy =
      make_policy(goodput_policy(), {{"adapt_batch", false}, {"settle_steps", 10.0}, {"refit_s", 1.0}, {"min_s", 0.0}});
  const auto state = policy->initial_state();
  Rng rng(1);
  ClusterView view;
  view.hosts.push_back({.name = "a", .slots = 8});
  JobView job{.name = "j", .workers = 2, .target = 2, .max_workers = 8, .base_batch = 32};
  job.batch.per_worker = 16;
  const auto step_of = [](double slower, std::uint32_t workers) { return 0.064 + slower * 0.012 * (workers - 1); };
  const auto train = [&](double slower) {
    for (int i = 0; i < 400; ++i) {
      const double step_s = step_of(slower, job.workers);
      job.global_batch = 16 * job.workers;
      job.members.assign(job.workers, {.steps = 5, .step_s = step_s, .compute_s = 0.064});
      view.now_s += 5 * step_s;
      job.intervals = {{.begin_s = view.now_s - 5 * step_s,
                        .end_s = view.now_s,
                        .workers = job.workers,
                        .steps = 5,
                        .samples = 5 * job.global_batch,
                        .global_batch = job.global_batch}};
      view.jobs = {job};
      const auto decision = policy->decide(view, *state, rng).jobs[0];
      job.workers = job.target = decision.workers.value_or(job.workers);
    }
    return step_of(slower, 1) / step_of(slower, job.workers);  // the speed of a worker, relative to one alone
  };
  const double before = train(1);
  CHECK((before > 0.33 && before < 0.67));
  const double after = train(4);
  CHECK((after > 0.33 && after < 0.67));
}

}  // namespace
}  // namespace elastictrain::heuristics
