// The policy "stragglers" on the worker model, from the view of each step to the applied decision.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "heuristics/simulate/job_model.h"
#include "heuristics/straggler/policy.h"
#include "heuristics/straggler/remedies.h"

namespace elastictrain::heuristics {
namespace {

double normal_noise(std::uint64_t worker, std::uint64_t step) {
  std::mt19937_64 random(worker * 1'000'003 + step);
  random.discard(3);
  return std::exp(0.02 * std::normal_distribution<double>()(random));
}

WorkerModelOptions options_of(std::uint32_t hosts, std::uint32_t workers_per_host, std::uint32_t slots_per_host) {
  WorkerModelOptions options;
  options.hosts = hosts;
  options.workers_per_host = workers_per_host;
  options.slots_per_host = slots_per_host;
  options.noise = normal_noise;
  return options;
}

// A model with the policy deciding after every step.
struct Loop {
  WorkerModel run;
  std::unique_ptr<Policy> policy;
  std::unique_ptr<PolicyState> state;
  Rng rng{1};
  std::map<std::string, int> codes;
  std::vector<Reason> changes;

  Loop(WorkerModelOptions options, const Parameters& given) : run(std::move(options)) {
    const PolicySpec spec = straggler_policy();
    const CheckedParameters checked = check_parameters(spec, given);
    REQUIRE(checked.problem.empty());
    policy = spec.make(checked.parameters);
    state = policy->initial_state();
  }
  // Samples per second over these steps.
  double steps(std::uint64_t count) {
    const double samples = run.samples_done();
    const double begin_s = run.now_s();
    for (std::uint64_t i = 0; i < count; ++i) {
      const Decision decision = policy->decide(run.step(), *state, rng);
      const JobDecision& job = decision.jobs.at(0);
      ++codes[job.reason.code];
      if (job.changes()) changes.push_back(job.reason);
      run.carry_out(decision);
    }
    return (run.samples_done() - samples) / (run.now_s() - begin_s);
  }
};

std::string action(const char* name) {
  return name;
}

TEST_CASE("replace: throughput is what it was before the slow-down") {
  for (const std::uint32_t hosts : {4U, 64U}) {
    CAPTURE(hosts);
    Loop loop(options_of(hosts, 1, 2), {{"action", action("replace")}});
    loop.run.add({SlowCause::Of::kWorker, 2, 1.5, 200});
    const double before = loop.steps(200);
    const double during = loop.steps(20);
    CHECK(during < 0.75 * before);
    loop.steps(100);
    CHECK(loop.run.replaced() == 1);
    CHECK(loop.codes["replacement_helped"] == 1);
    CHECK(loop.steps(300) >= 0.98 * before);
    CHECK(loop.run.replaced() == 1);
    REQUIRE(loop.changes.size() == 1);
    CHECK(loop.changes[0].text.find("worker 2 (rank 2 on host2) is slow: 1.5") == 0);
    CHECK(loop.changes[0].text.find("replaced on another host (1 of 4 this hour)") != std::string::npos);
  }
}

TEST_CASE("rebalance: within three percent of the best that these workers can do") {
  for (const std::uint32_t hosts : {4U, 64U}) {
    for (const double factor : {1.2, 1.5, 2.0, 4.0}) {
      for (const double fixed_s : {0.0, 0.05}) {
        CAPTURE(hosts);
        CAPTURE(factor);
        CAPTURE(fixed_s);
        WorkerModelOptions options = options_of(hosts, 1, 1);
        options.fixed_s = fixed_s;
        Loop loop(options, {{"action", action("rebalance")}});
        loop.run.add({SlowCause::Of::kWorker, 2, factor, 200});
        loop.steps(400);
        CHECK(loop.run.expected_compute_s() <= 1.03 * loop.run.best_compute_s());
        // The shares stay there: noise moves the last sample back and forth at most twice.
        const std::uint32_t changes = loop.run.share_changes();
        CHECK(changes <= 4);
        loop.steps(3000);
        CHECK(loop.run.share_changes() <= changes + 2);
        CHECK(loop.run.expected_compute_s() <= 1.03 * loop.run.best_compute_s());
      }
    }
  }
}

TEST_CASE("rebalance: shares that did not help are taken back, and the worker is left alone for a while") {
  Rebalance rebalance;
  JobView job{.workers = 2, .global_batch = 32};
  job.members = {{.id = 1, .share = 16, .steps = 20}, {.id = 2, .rank = 1, .share = 16, .steps = 20}};
  double now_s = 0;
  // The second worker waits for something else: 0.3 s, whatever its share.
  const auto look = [&](bool is_named = true) {
    now_s += 10;
    job.steps_done += 20;
    job.members[0].compute_s = 0.01 * job.members[0].share;
    job.members[1].compute_s = 0.3;
    const double slowdown = (0.3 / job.members[1].share) / 0.01;
    const std::vector<SlowWorker> slow =
        is_named ? std::vector<SlowWorker>{{2, 1, 0, slowdown}} : std::vector<SlowWorker>{};
    const auto change = rebalance.decide(job, slow, {1, slowdown}, {}, now_s);
    if (!change) return std::string();
    std::vector<double> speeds(2, 1.0);
    for (const auto& one : change->speeds) speeds[one.worker - 1] = one.speed;
    const auto shares = share_out(job.global_batch, speeds, 0);
    for (std::size_t i = 0; i < shares.size(); ++i) job.members[i].share = shares[i];
    return change->reason.code;
  };
  for (int views = 0; views < 2; ++views) CHECK(look(false).empty());
  CHECK(look() == "rebalance");
  CHECK(job.members[1].share < 16);
  std::string said;
  for (int views = 0; views < 6 && said.empty(); ++views) said = look();
  CHECK(said == "rebalance_did_not_help");
  CHECK(job.members[1].share == 16);
  const double taken_back_s = now_s;
  while (now_s < taken_back_s + 590) CHECK(look().empty());
  CHECK(look() == "rebalance");
}

TEST_CASE("rebalance: equal shares come back when the worker recovers") {
  WorkerModelOptions options = options_of(4, 1, 1);
  options.fixed_s = 0.05;
  Loop loop(options, {{"action", action("rebalance")}});
  loop.run.add({SlowCause::Of::kWorker, 1, 2, 200, 600});
  loop.steps(600);
  CHECK(loop.run.members()[1].share < 25);
  loop.steps(200);
  for (const WorkerView& member : loop.run.members()) CHECK(member.share == 32);
  const auto changes = loop.run.share_changes();
  loop.steps(2000);
  CHECK(loop.run.share_changes() == changes);
  CHECK(loop.changes.back().text.find("all workers have equal speed again: equal shares") == 0);
}

TEST_CASE("rebalance: after any number of corrections a worker that has recovered gets an equal share") {
  Rebalance rebalance;
  JobView job{.workers = 3, .global_batch = 48};
  job.members = {{.id = 1, .share = 16}, {.id = 2, .rank = 1, .share = 16}, {.id = 3, .rank = 2, .share = 16}};
  const auto decide = [&](double slowdown, bool named) {
    job.steps_done += 1000;
    const std::vector<SlowWorker> slow =
        named ? std::vector<SlowWorker>{{3, 2, 0, slowdown}} : std::vector<SlowWorker>{};
    const auto change = rebalance.decide(job, slow, {1, 1, slowdown}, {}, 0);
    if (!change) return false;
    std::vector<double> speeds(3, 1.0);
    for (const auto& one : change->speeds) speeds[one.worker - 1] = one.speed;
    const auto shares = share_out(job.global_batch, speeds, 0);
    for (std::size_t i = 0; i < shares.size(); ++i) job.members[i].share = shares[i];
    return true;
  };
  CHECK(decide(1.94, true));
  for (const double slowdown : {1.75, 1.6, 1.45, 1.3, 1.2, 1.11}) decide(slowdown, false);
  CHECK(job.members[2].share < 16);
  CHECK(decide(1.01, false));
  CHECK(job.members[2].share == 16);
  CHECK_FALSE(decide(1.01, false));
}

TEST_CASE("noise alone moves no samples and replaces no worker") {
  for (const char* name : {"rebalance", "replace"}) {
    Loop loop(options_of(16, 1, 2), {{"action", action(name)}});
    loop.steps(5000);
    CHECK(loop.changes.empty());
  }
}

TEST_CASE("replace: a slow host loses all its workers to another host, as one attempt") {
  Loop loop(options_of(4, 4, 8), {{"action", action("replace")}, {"replacements_per_hour", 1.0}});
  loop.run.add({SlowCause::Of::kHost, 1, 1.4, 100});
  const double before = loop.steps(100);
  loop.steps(200);
  CHECK(loop.run.replaced() == 4);
  for (const WorkerView& member : loop.run.members()) CHECK(member.host != 1);
  CHECK(loop.steps(200) >= 0.98 * before);
  REQUIRE(loop.changes.size() == 1);
  CHECK(loop.changes[0].text.find("all 4 workers of host1 are slow, 1.") == 0);
}

TEST_CASE("replace: a worker that is slow again on the same host goes to another one") {
  // Two workers on each host; every one with an even id below 5 is slow, so the replacement on the same host is slow as
  // well.
  Loop loop(options_of(2, 2, 4), {{"action", action("replace")}});
  loop.run.add({SlowCause::Of::kWorker, 2, 1.5, 100});
  loop.run.add({SlowCause::Of::kWorker, 4, 1.5, 100});
  loop.steps(1000);
  CHECK(loop.run.replaced() == 2);
  CHECK(loop.codes["replacement_did_not_help"] == 1);
  CHECK(loop.codes["replacement_helped"] == 1);
  REQUIRE(loop.changes.size() == 2);
  CHECK(loop.changes[1].text.find("replaced on another host") != std::string::npos);
}

TEST_CASE("replace: when it is the rank that is slow, one attempt shows it") {
  Loop loop(options_of(4, 1, 2), {{"action", action("replace")}});
  loop.run.add({SlowCause::Of::kRank, 3, 1.5, 100});  // joiners get the last rank
  loop.steps(3000);
  CHECK(loop.run.replaced() == 1);
  CHECK(loop.codes["replacement_did_not_help"] == 1);
  CHECK(loop.codes["left_alone"] > 1000);
}

TEST_CASE("replace: not more than the budget, and not without a place") {
  Loop poor(options_of(8, 1, 2), {{"action", action("replace")}, {"replacements_per_hour", 2.0}});
  for (const std::uint64_t worker : {1, 3, 5}) poor.run.add({SlowCause::Of::kWorker, worker, 1.5, 100});
  poor.steps(1500);
  CHECK(poor.run.now_s() < 3600);
  CHECK(poor.run.replaced() == 2);
  CHECK(poor.codes["budget_used"] > 100);
  Loop full(options_of(4, 1, 1), {{"action", action("replace")}});
  full.run.add({SlowCause::Of::kWorker, 1, 1.5, 100});
  full.steps(500);
  CHECK(full.run.replaced() == 0);
  CHECK(full.codes["no_place"] > 100);
  // Without a place its share is reduced meanwhile.
  REQUIRE_FALSE(full.changes.empty());
  CHECK(full.changes[0].text.find("not replaced") != std::string::npos);
  CHECK(full.run.members()[1].share < 25);
}

TEST_CASE("replace: a share that was reduced for want of a place is equal again once the worker has recovered") {
  Loop loop(options_of(4, 1, 1), {{"action", action("replace")}});
  loop.run.add({SlowCause::Of::kWorker, 1, 2, 100, 500});
  loop.steps(500);
  CHECK(loop.run.members()[1].share < 25);
  loop.steps(150);
  for (const WorkerView& member : loop.run.members()) CHECK(member.share == 32);
}

// Views of `view_s` of steps of 50 ms; worker 1 takes 1.5 times as long from `begin_s` until `end_s`.
bool is_found(double view_s, double begin_s, double end_s) {
  const PolicySpec spec = straggler_policy();
  const auto policy = spec.make(check_parameters(spec, {}).parameters);
  const auto state = policy->initial_state();
  Rng rng(1);
  std::mt19937_64 random(7);
  std::normal_distribution<double> noise(0, 0.02);
  bool found = false;
  const auto steps = static_cast<std::uint64_t>(view_s / 0.05);
  for (int i = 0; i * view_s < end_s + 5; ++i) {
    const double from_s = i * view_s;
    const double slow_part = std::max(0.0, std::min(end_s, from_s + view_s) - std::max(begin_s, from_s)) / view_s;
    ClusterView view{.now_s = from_s + view_s, .hosts = {{.name = "a", .slots = 8}}};
    JobView job{.name = "j", .workers = 4, .target = 4, .max_workers = 4};
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      WorkerView member{.id = rank, .rank = rank, .share = 32, .steps = steps};
      member.step_s = member.compute_s = 0.05 * (1 + (rank == 1 ? 0.5 * slow_part : 0)) * std::exp(noise(random));
      job.members.push_back(member);
    }
    view.jobs = {job};
    found = found || policy->decide(view, *state, rng).jobs.at(0).reason.code == "straggler";
  }
  return found;
}

TEST_CASE("what is over before it has lasted is not named, whenever in a view it began") {
  for (int phase = 0; phase < 20; ++phase) {
    CAPTURE(phase);
    const double at_half = 20 + 0.025 * phase;
    CHECK_FALSE(is_found(0.5, at_half, at_half + 1.5));
    CHECK(is_found(0.5, at_half, at_half + 3.5));
    const double at_one = 20 + 0.05 * phase;
    CHECK_FALSE(is_found(1, at_one, at_one + 2.5));
    CHECK(is_found(1, at_one, at_one + 7));
  }
}

TEST_CASE("a worker that waits for its data is reported, and stays") {
  for (const char* name : {"report", "replace"}) {
    const PolicySpec spec = straggler_policy();
    const auto policy = spec.make(check_parameters(spec, {{"action", action(name)}}).parameters);
    const auto state = policy->initial_state();
    Rng rng(1);
    Reason last;
    for (int i = 1; i <= 12; ++i) {
      ClusterView view{.now_s = 0.5 * i, .hosts = {{.name = "a", .slots = 8, .free_slots = 4}}};
      JobView job{.name = "j", .workers = 4, .target = 4, .max_workers = 4};
      for (std::uint32_t rank = 0; rank < 4; ++rank) {
        WorkerView member{.id = rank, .rank = rank, .share = 32, .steps = 10, .step_s = 0.05, .compute_s = 0.02};
        member.data_wait_s = rank == 2 ? 0.03 : 0.0001;
        job.members.push_back(member);
      }
      view.jobs = {job};
      const JobDecision decision = policy->decide(view, *state, rng).jobs.at(0);
      CHECK_FALSE(decision.changes());
      last = decision.reason;
    }
    CHECK(last.code == "data_bound");
    CHECK(last.text.find("worker 2 (rank 2 on a) waits 30.0 ms") == 0);
  }
}

TEST_CASE("the action \"report\" changes nothing and names slow workers; \"none\" does not detect any") {
  Loop report(options_of(4, 1, 2), {{"action", action("report")}});
  report.run.add({SlowCause::Of::kWorker, 1, 1.5, 100});
  report.steps(200);
  CHECK(report.changes.empty());
  CHECK(report.codes["straggler"] > 80);
  Loop none(options_of(4, 1, 2), {{"action", action("none")}});
  none.steps(10);
  CHECK(none.codes["off"] == 10);
}

TEST_CASE("the same views give the same decisions from a copied state") {
  Loop loop(options_of(4, 1, 2), {{"action", action("replace")}});
  loop.run.add({SlowCause::Of::kWorker, 1, 1.5, 100});
  loop.steps(105);
  const auto copy = loop.state->clone();
  for (int step = 0; step < 20; ++step) {
    const ClusterView& view = loop.run.step();
    const Decision one = loop.policy->decide(view, *loop.state, loop.rng);
    const Decision other = loop.policy->decide(view, *copy, loop.rng);
    CHECK(one.jobs[0].reason.text == other.jobs[0].reason.text);
    CHECK(one.jobs[0].replacements.size() == other.jobs[0].replacements.size());
  }
}

TEST_CASE("every detector can be had by name") {
  for (const char* name : {"robust", "ewma", "nvidia", "dlrover"}) {
    CAPTURE(name);
    Loop loop(options_of(4, 1, 2), {{"detector", action(name)}});
    loop.run.add({SlowCause::Of::kWorker, 1, 2.5, 100});
    loop.steps(200);
    CHECK(loop.codes["straggler"] > 50);
  }
}

}  // namespace
}  // namespace elastictrain::heuristics
