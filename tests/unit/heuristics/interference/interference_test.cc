// The vote on worked numbers, and the policy on the worker model: a busy network is distinguished from a straggler and
// from noise, and the job changes to the star once.
#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <random>
#include <set>
#include <string>

#include "heuristics/interference/policy.h"
#include "heuristics/simulate/job_model.h"

namespace elastictrain::heuristics {
namespace {

WorkerView member(std::uint64_t id, double compute_s, double communicate_s) {
  WorkerView view;
  view.id = id;
  view.steps = 1;
  view.compute_s = compute_s;
  view.communicate_s = communicate_s;
  return view;
}

TEST_CASE("more than half of the workers below 0.8 of their first throughput make an interference") {
  const Throughputs first{{1, 100.0}, {2, 100.0}, {3, 50.0}, {4, 100.0}};
  const Throughputs two_slow{{1, 79.0}, {2, 79.0}, {3, 40.0}, {4, 80.0}};
  const Vote two = vote_on_interference(two_slow, first, 0.8);
  CHECK(two.votes == 2);
  CHECK(two.voters == 4);
  CHECK_FALSE(two.disturbed());
  const Throughputs three_slow{{1, 79.0}, {2, 79.0}, {3, 39.0}, {4, 80.0}};
  CHECK(vote_on_interference(three_slow, first, 0.8).disturbed());
  // A worker that joined later has no reference.
  CHECK(vote_on_interference({{1, 10.0}, {9, 1.0}}, first, 0.8).voters == 1);
  CHECK_FALSE(vote_on_interference({}, first, 0.8).disturbed());
}

TEST_CASE("waiting for a straggler is no communication") {
  // Each exchange takes 0.02 s; workers 1 and 2 wait 0.3 s for worker 3.
  const auto found = communication_throughputs(
      std::vector<WorkerView>{member(1, 0.1, 0.32), member(2, 0.1, 0.32), member(3, 0.4, 0.02)});
  for (const auto& [worker, throughput] : found) CHECK(throughput == doctest::Approx(50));
  CHECK(communication_throughputs(std::vector<WorkerView>{member(1, 0.1, 0)}).empty());
}

double some_noise(std::uint64_t worker, std::uint64_t step) {
  std::mt19937_64 random(worker * 1'000'003 + step);
  random.discard(3);
  return std::exp(0.05 * std::normal_distribution<double>()(random));
}

struct Loop {
  WorkerModel run;
  std::unique_ptr<Policy> policy;
  std::unique_ptr<PolicyState> state;
  Rng rng{1};
  std::vector<std::pair<std::uint64_t, std::string>> switches;
  std::set<std::string> codes;

  // From `busy_from` on the shape that the run begins with takes three times as long; any other takes 25 ms always.
  explicit Loop(std::uint64_t busy_from, const Parameters& given = {}) : run(options(busy_from)) {
    const PolicySpec spec = interference_policy();
    const CheckedParameters checked = check_parameters(spec, given);
    REQUIRE(checked.problem.empty());
    policy = spec.make(checked.parameters);
    state = policy->initial_state();
  }

  static WorkerModelOptions options(std::uint64_t busy_from) {
    WorkerModelOptions options;
    options.hosts = 4;
    options.workers_per_host = 1;
    options.slots_per_host = 1;
    options.batch.per_worker = 32;
    options.noise = some_noise;
    options.exchange_s = [busy_from](const std::string& topology, std::uint64_t step) {
      if (topology != "auto") return 0.025;
      return step < busy_from ? 0.02 : 0.06;
    };
    return options;
  }

  void steps(std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      const Decision decision = policy->decide(run.step(), *state, rng);
      const JobDecision& job = decision.jobs.at(0);
      codes.insert(job.reason.code);
      if (job.topology) switches.emplace_back(run.steps_done(), *job.topology);
      run.carry_out(decision);
    }
  }
};

TEST_CASE("a busy network makes the job go over to a star at rank 1, once, within three steps") {
  Loop loop(50);
  loop.steps(50);
  CHECK(loop.switches.empty());
  loop.steps(150);
  REQUIRE(loop.switches.size() == 1);
  CHECK(loop.switches[0].first <= 53);
  CHECK(loop.switches[0].second == "1,1,1,1");
  CHECK(loop.codes == std::set<std::string>{"measuring", "undisturbed", "disturbed", "switched"});
}

TEST_CASE("noise and a straggler are no interference") {
  Loop loop(UINT64_MAX);
  loop.run.add({SlowCause::Of::kWorker, 2, 3.0, 100});
  loop.steps(1000);
  CHECK(loop.switches.empty());
}

TEST_CASE("as published it decides at one look, and another shape can be named") {
  Loop loop(50, {{"views", 1.0}, {"topology", std::string("clique")}});
  loop.steps(60);
  REQUIRE(loop.switches.size() == 1);
  CHECK(loop.switches[0] == std::pair<std::uint64_t, std::string>(51, "clique"));
}

TEST_CASE("a change of size begins with references of its own, and after the switch the star follows the size") {
  const auto policy = interference_policy().make(check_parameters(interference_policy(), {}).parameters);
  const auto state = policy->initial_state();
  Rng rng{1};
  double steps_done = 0;
  const auto look = [&](std::uint32_t workers, double exchange_s, const std::string& topology) {
    ClusterView view;
    JobView& job = view.jobs.emplace_back();
    job.name = "job";
    job.workers = workers;
    job.topology = topology;
    job.steps_done = steps_done += 10;
    for (std::uint32_t id = 0; id < workers; ++id) job.members.push_back(member(id, 0.1, exchange_s));
    return policy->decide(view, *state, rng).jobs.at(0);
  };
  look(2, 0.02, "auto");
  look(2, 0.02, "auto");
  CHECK_FALSE(look(3, 0.03, "auto").changes());  // more workers, a longer exchange: no worker is disturbed
  look(3, 0.03, "auto");
  CHECK_FALSE(look(3, 0.03, "auto").changes());
  CHECK_FALSE(look(3, 0.09, "auto").changes());
  CHECK(look(3, 0.09, "auto").topology == "1,1,1");
  CHECK_FALSE(look(3, 0.03, "1,1,1").changes());
  CHECK(look(4, 0.03, "auto").topology == "1,1,1,1");
}

}  // namespace
}  // namespace elastictrain::heuristics
