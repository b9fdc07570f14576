#include "heuristics/scavenger/scavenger_policy.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "tests/unit/heuristics/batch/batch_job.h"

namespace elastictrain::heuristics {
namespace {

using doctest::Approx;
using testing::BatchJob;
using testing::make_policy;
using testing::run_batch_job;

double step_s(std::uint32_t workers, double batch) {
  const double compute = 0.02 + 0.005 * batch;
  const double communicate = workers > 1 ? 2 * 0.1 * (workers - 1) / workers + 0.02 * workers : 0;
  return std::sqrt(compute * compute + communicate * communicate);
}

// Weak scaling of 32 samples each: samples a second rise to the end, those for each worker fall all the way.
BatchJob job_of(std::uint32_t max) {
  BatchJob model;
  model.step_s = step_s;
  model.noise = 0.05;
  model.job.workers = 2;
  model.job.max_workers = max;
  model.job.batch.per_worker = 32;
  model.job.base_batch = 64;
  model.job.samples_total = 2e6;
  return model;
}

double job_s(std::uint32_t workers) {
  return 2e6 / (32 * workers) * step_s(workers, 32);
}

TEST_CASE("a partial search measures three sizes and then takes the goal's choice") {
  const auto model = job_of(16);
  const auto settled = [&](const char* goal, const Parameters& more = {}) {
    Parameters parameters = more;
    parameters["goal"] = std::string(goal);
    return run_batch_job(*make_policy(scavenger_policy(), parameters), model, 3000);
  };
  const auto fastest = settled("fastest");
  CHECK(fastest.job.workers == 16);
  CHECK(fastest.last.code == "settled");
  std::set<std::uint32_t> sizes;
  for (const auto& [workers, batch] : fastest.settings) sizes.insert(workers);
  CHECK(sizes == std::set<std::uint32_t>{1, 2, 4, 16});
  CHECK(settled("cheapest").job.workers == 1);
  const auto knee = settled("knee");
  CHECK(knee.job.workers > 1);
  CHECK(knee.job.workers < 16);
}

TEST_CASE("a full search measures every size, or as many as it is told") {
  const auto measured = [](std::uint32_t count) {
    const Parameters parameters{{"search", std::string("full")}, {"sizes", static_cast<double>(count)}};
    const auto run = run_batch_job(*make_policy(scavenger_policy(), parameters), job_of(7), 3000);
    std::set<std::uint32_t> sizes;
    for (const auto& [workers, batch] : run.settings) sizes.insert(workers);
    return sizes;
  };
  CHECK(measured(0) == std::set<std::uint32_t>{1, 2, 3, 4, 5, 6, 7});
  CHECK(measured(3) == std::set<std::uint32_t>{1, 2, 3, 7});  // it begins at 2
}

TEST_CASE("a policy that only measures stays at the last size of the search, and reports it") {
  const auto run = run_batch_job(
      *make_policy(scavenger_policy(), {{"goal", std::string("cheapest")}, {"follow", false}}), job_of(16), 3000);
  CHECK(run.last.code == kMeasured);
  CHECK(run.job.workers == 16);  // where the search ends; the cheapest is 1
  CHECK(run.settings.size() == 4);
}

TEST_CASE("with a deadline the cheapest size that meets it is taken, and met") {
  for (const std::uint32_t wanted : {2U, 5U, 9U}) {
    CAPTURE(wanted);
    // Time that the search needs, and a size that would just do.
    const double deadline_s = 1.05 * job_s(wanted);
    const auto run =
        run_batch_job(*make_policy(scavenger_policy(), {{"goal", std::string("deadline")}, {"deadline_s", deadline_s}}),
                      job_of(16), 1e6);
    CHECK(run.job.samples_done >= run.job.samples_total);
    CHECK(run.now_s <= deadline_s * 1.01);
    CHECK(run.job.workers <= wanted + 2);
    CHECK(run.settings.size() < 12);
  }
}

TEST_CASE("a budget is kept, and spent") {
  // Four workers cost 4 * 2e6 / 128 * step_s(4, 32) / 3600.
  const double budget = 1.1 * 4 * job_s(4) / 3600;
  const auto run = run_batch_job(
      *make_policy(scavenger_policy(), {{"goal", std::string("budget")}, {"budget", budget}}), job_of(16), 1e6);
  CHECK(run.job.cost <= budget * 1.02);
  CHECK(run.job.cost >= budget * 0.8);
}

TEST_CASE("a deadline without a known end cannot be judged") {
  auto model = job_of(8);
  model.job.samples_total = 0;
  const auto run = run_batch_job(*make_policy(scavenger_policy(), {{"goal", std::string("deadline")}}), model, 1500);
  CHECK(run.last.code == "cannot_decide");
  const auto fastest = run_batch_job(*make_policy(scavenger_policy(), {{"goal", std::string("fastest")}}), model, 1500);
  CHECK(fastest.job.workers == 8);
}

TEST_CASE("with the batch searched as well the noise decides how large it may be") {
  auto model = job_of(8);
  model.noise = 0;
  const Parameters parameters{{"goal", std::string("fastest")}, {"vary_batch", true}, {"max_per_worker", 256.0}};
  model.noise_scale = [](double) { return 100.0; };
  const auto quiet = run_batch_job(*make_policy(scavenger_policy(), parameters), model, 4000);
  model.noise_scale = [](double) { return 50000.0; };
  const auto noisy = run_batch_job(*make_policy(scavenger_policy(), parameters), model, 4000);
  CHECK(quiet.job.batch.per_worker < noisy.job.batch.per_worker);
  CHECK(noisy.job.batch.per_worker == 256);
  // The best there is, by hand: (noise + B) / B * step_s over all sizes and batches of a worker.
  double best = INFINITY;
  for (std::uint32_t workers = 1; workers <= 8; ++workers)
    for (double batch = 8; batch <= 256; ++batch)
      best = std::min(best, (100 + batch * workers) / (batch * workers) * step_s(workers, batch));
  const double global = quiet.job.workers * quiet.job.batch.per_worker;
  CHECK((100 + global) / global * step_s(quiet.job.workers, quiet.job.batch.per_worker) <= 1.1 * best);
}

TEST_CASE("by the SGD noise theta decides how large a batch may be") {
  auto model = job_of(8);
  model.noise = 0;
  model.noise_scale = [](double) { return 1000.0; };
  const auto batch_at = [&](double theta) {
    const Parameters parameters{{"goal", std::string("fastest")},
                                {"vary_batch", true},
                                {"max_per_worker", 256.0},
                                {"epochs", std::string("sgd-noise")},
                                {"theta", theta}};
    return run_batch_job(*make_policy(scavenger_policy(), parameters), model, 4000).job.batch.per_worker;
  };
  CHECK(batch_at(0) == 256);
  CHECK(batch_at(-0.07) < 64);
  CHECK(batch_at(-0.5) == 32);  // no such theta: the user's own
}

TEST_CASE("the noise of a single worker decides how large its batch may be, in both forms") {
  auto model = job_of(1);
  model.noise = 0;
  model.job.workers = 1;
  model.job.base_batch = 32;
  model.noise_scale = [](double) { return 1000.0; };
  const auto batch_at = [&](Parameters parameters) {
    parameters["goal"] = std::string("fastest");
    parameters["vary_batch"] = true;
    parameters["max_per_worker"] = 256.0;
    return run_batch_job(*make_policy(scavenger_policy(), parameters), model, 4000).job.batch.per_worker;
  };
  const auto by_theta = [&](double theta) {
    return batch_at({{"epochs", std::string("sgd-noise")}, {"theta", theta}});
  };
  CHECK(by_theta(0) == 256);
  CHECK(by_theta(-0.4) < 64);
  const auto cost = [](double batch) { return (1000 + batch) / batch * step_s(1, batch); };
  CHECK(cost(batch_at({})) < 1.05 * cost(std::sqrt(1000 * 0.02 / 0.005)));  // the best there is
  model.reports_halves = false;
  CHECK(by_theta(0) == 32);  // the user's own
  CHECK(batch_at({}) == 32);
}

TEST_CASE("a size that is never reached is left out of the search, and not asked for again") {
  auto model = job_of(16);
  model.startable = 15;
  const auto run = run_batch_job(
      *make_policy(scavenger_policy(), {{"give_up_s", 100.0}, {"goal", std::string("fastest")}}), model, 4000);
  CHECK(run.job.workers == 15);
  CHECK(run.last.code == "settled");
}

TEST_CASE("only sizes that the batch leaves samples for, and that hosts have room for, are searched") {
  auto model = job_of(16);
  model.job.batch.max_global = 320;  // ten workers of 32, then growing stops
  model.job.batch.at_limit = AtLimit::kStop;
  const auto fastest = [&] {
    return run_batch_job(*make_policy(scavenger_policy(), {{"goal", std::string("fastest")}}), model, 3000);
  };
  const auto run = fastest();
  CHECK(run.job.workers == 10);
  for (const auto& [workers, batch] : run.settings) CHECK(workers <= 10);
  model.job.reachable = 6;
  CHECK(fastest().job.workers == 6);
}

TEST_CASE("without a noise scale the batch is the user's again after the search") {
  auto model = job_of(8);
  const auto run = run_batch_job(
      *make_policy(scavenger_policy(),
                   {{"goal", std::string("fastest")}, {"vary_batch", true}, {"max_per_worker", 256.0}, {"sizes", 2.0}}),
      model, 2000);
  CHECK(run.last.code == "settled");
  std::uint32_t largest = 0;
  for (const auto& [workers, batch] : run.settings) largest = std::max(largest, batch);
  CHECK(largest == 256);
  CHECK(run.job.batch.per_worker == 32);
  CHECK(run.settings.size() <= 6);  // the start, four of the search, and a last change
}

TEST_CASE("a gain below the tolerance is left alone") {
  const Parameters parameters{{"goal", std::string("cheapest")}, {"tolerance", 1.0}};
  const auto run = run_batch_job(*make_policy(scavenger_policy(), parameters), job_of(16), 3000);
  CHECK(run.last.code == "settled");
  CHECK(run.job.workers == 16);  // where the search ends; the cheapest is 1
}

TEST_CASE("when the limits change the search begins again") {
  const auto policy = make_policy(scavenger_policy(), {{"goal", std::string("fastest")}, {"steps_per_point", 1.0}});
  const auto state = policy->initial_state();
  Rng rng(1);
  ClusterView view;
  JobView job = job_of(4).job;
  const auto look = [&] {
    view.now_s += 10;
    job.global_batch = 32 * job.workers;
    job.intervals = {{.begin_s = view.now_s - 10 * step_s(job.workers, 32),
                      .end_s = view.now_s,
                      .workers = job.workers,
                      .steps = 10,
                      .global_batch = job.global_batch}};
    view.jobs = {job};
    const JobDecision decision = policy->decide(view, *state, rng).jobs.at(0);
    job.workers = job.target = decision.workers.value_or(job.workers);
    return decision.reason.code;
  };
  for (int i = 0; i < 20; ++i) look();
  CHECK(look() == "settled");
  job.max_workers = 8;
  CHECK(look() == "searching");
  for (int i = 0; i < 20; ++i) look();
  CHECK(look() == "settled");
  CHECK(job.workers == 8);
}

TEST_CASE("once settled it stays, also with 10 % noise") {
  auto model = job_of(16);
  model.noise = 0.1;
  model.job.samples_total = 2e7;
  const auto run = run_batch_job(*make_policy(scavenger_policy()), model, 6 * 3600);
  CHECK(run.settings.size() <= 6);
}

}  // namespace
}  // namespace elastictrain::heuristics
