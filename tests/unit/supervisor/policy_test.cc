// Purpose: from heartbeats to views, from views to texts and back, and from a policy's decision to events of the core.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>

#include "heuristics/registry/registry.h"
#include "supervisor/policy/observer.h"
#include "supervisor/policy/runner.h"
#include "supervisor/policy/view_json.h"

namespace elastictrain::policy {
namespace {

protocol::WorkerHeartbeat beat(std::uint64_t sequence, Generation generation, Step step, std::uint32_t steps,
                               double step_ms, std::uint64_t samples_used = 0) {
  protocol::WorkerHeartbeat heartbeat;
  heartbeat.sequence = sequence;
  heartbeat.generation = generation;
  heartbeat.step = step;
  heartbeat.steps = steps;
  heartbeat.mean.step_us = step_ms * 1e3;
  heartbeat.mean.compute_us = step_ms * 500;
  heartbeat.samples_used = samples_used;
  return heartbeat;
}

// Two workers on host A, one on B, all members of generation 1.
core::RunView run_of_three() {
  core::RunView run;
  run.run_name = "three";
  run.phase = core::RunPhase::kRunning;
  run.generation = 1;
  run.world_size = run.target_size = 3;
  run.global_batch = 96;
  run.batch.per_worker = 32;
  run.base_batch = 32;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    core::WorkerView worker;
    worker.worker = WorkerId{rank + 1};
    worker.phase = core::WorkerPhase::kMember;
    worker.rank = rank;
    worker.host = rank < 2 ? "A" : "B";
    worker.share = 32;
    run.workers.push_back(worker);
  }
  run.agents = {{AgentId{1}, "A", 2, core::AgentPhase::kUp, 2, {}}, {AgentId{2}, "B", 4, core::AgentPhase::kUp, 1, {}}};
  return run;
}

ObserverSettings settings_of_three() {
  ObserverSettings settings;
  settings.max_workers = 6;
  settings.price_per_worker_hour = 1;
  settings.classes = {{"fast", "B*", 3}};
  return settings;
}

TEST_CASE("heartbeats of the first rank become intervals; the first ones of a generation warm up") {
  Observer observer(settings_of_three());
  observer.planned(1, WorkerId{1}, 3, 96);
  observer.on_heartbeat(WorkerId{1}, beat(1, 1, 2, 2, 100, 192), 10);
  observer.on_heartbeat(WorkerId{1}, beat(2, 1, 6, 4, 50, 576), 10.2);
  observer.on_heartbeat(WorkerId{1}, beat(2, 1, 6, 4, 50, 576), 10.3);  // the same once more
  observer.on_heartbeat(WorkerId{1}, beat(3, 1, 8, 2, 50, 768), 10.5);
  observer.on_heartbeat(WorkerId{2}, beat(1, 1, 8, 2, 80), 10.5);
  CHECK(observer.fresh_steps() == 6);
  const auto view = observer.take(run_of_three(), 11);
  const auto& job = view.jobs.at(0);
  REQUIRE(job.intervals.size() == 2);
  CHECK(job.intervals[0].warm_up);
  CHECK(job.intervals[0].steps == 2);
  CHECK_FALSE(job.intervals[1].warm_up);
  CHECK(job.intervals[1].workers == 3);
  CHECK(job.intervals[1].steps == 6);
  CHECK(job.intervals[1].samples == 6 * 96);
  CHECK(job.intervals[1].seconds() == doctest::Approx(0.3));  // of the steps, not between the heartbeats
  CHECK(job.samples_done == 768);
  CHECK(job.members[0].steps == 8);
  CHECK(job.members[0].step_s == doctest::Approx((2 * 0.1 + 6 * 0.05) / 8));
  CHECK(job.members[1].compute_s == doctest::Approx(0.04));
  CHECK(job.members[2].steps == 0);
  CHECK(observer.take(run_of_three(), 12).jobs[0].intervals.empty());
}

TEST_CASE("what a worker sends is a mean over its steps, and its round trip the newest") {
  Observer observer(settings_of_three());
  observer.planned(1, WorkerId{1}, 3, 96);
  auto heartbeat = beat(1, 1, 1, 1, 50);
  heartbeat.mean.sent_bytes = 400;
  heartbeat.mean.received_bytes = 100;
  heartbeat.round_trip_us = 90;
  observer.on_heartbeat(WorkerId{2}, heartbeat, 1);
  heartbeat = beat(2, 1, 4, 3, 50);
  heartbeat.mean.sent_bytes = 800;
  heartbeat.mean.received_bytes = 300;
  heartbeat.round_trip_us = 60;
  observer.on_heartbeat(WorkerId{2}, heartbeat, 2);
  const auto member = observer.take(run_of_three(), 3).jobs[0].members[1];
  CHECK(member.sent_bytes == doctest::Approx(700));
  CHECK(member.received_bytes == doctest::Approx(250));
  CHECK(member.round_trip_s == doctest::Approx(60e-6));
}

TEST_CASE(
    "how many processors a worker keeps busy is known from the second reading on, and begins anew with its process") {
  Observer observer(settings_of_three());
  const auto processors = [&observer](double now_s) {
    return observer.take(run_of_three(), now_s).jobs[0].members[1].processors;
  };
  observer.on_cpu_time(WorkerId{2}, 0, 0.5);  // not read
  observer.on_cpu_time(WorkerId{2}, 4'000, 1);
  CHECK(processors(1) == 0);
  observer.on_cpu_time(WorkerId{2}, 4'700, 2);
  observer.on_cpu_time(WorkerId{2}, 5'500, 3);
  CHECK(processors(3) == doctest::Approx(0.75));
  observer.on_cpu_time(WorkerId{2}, 200, 4);
  observer.on_cpu_time(WorkerId{2}, 1'200, 5);
  CHECK(processors(5) == doctest::Approx(1));
  CHECK(processors(6) == 0);
}

TEST_CASE("gradient norms are means over the steps in which they were measured, of one batch") {
  Observer observer(settings_of_three());
  observer.planned(1, WorkerId{1}, 3, 96);
  auto heartbeat = beat(1, 1, 16, 16, 50);
  heartbeat.norm_steps = 1;
  heartbeat.local_square = 6;
  heartbeat.global_square = 3;
  observer.on_heartbeat(WorkerId{1}, heartbeat, 1);
  heartbeat.sequence = 2;
  heartbeat.norm_steps = 2;
  heartbeat.local_square = 9;
  heartbeat.global_square = 6;
  observer.on_heartbeat(WorkerId{1}, heartbeat, 2);
  const auto norms = observer.take(run_of_three(), 3).jobs[0].norms;
  CHECK(norms.count == 3);
  CHECK(norms.local_square == doctest::Approx(8));
  CHECK(norms.global_square == doctest::Approx(5));
  CHECK(norms.local_batch == 32);
  CHECK(norms.global_batch == 96);
  CHECK(observer.take(run_of_three(), 4).jobs[0].norms.count == 0);
}

TEST_CASE("norms have the batches that they were measured on, whatever the plan's are") {
  Observer observer(settings_of_three());
  observer.planned(1, WorkerId{1}, 1, 5);
  auto heartbeat = beat(1, 1, 16, 16, 50);
  heartbeat.norm_steps = 1;
  heartbeat.local_inverse_batch = (1.0 / 2 + 1.0 / 3) / 2;  // the halves of 5
  heartbeat.global_inverse_batch = 1.0 / 5;
  observer.on_heartbeat(WorkerId{1}, heartbeat, 1);
  auto norms = observer.take(run_of_three(), 2).jobs[0].norms;
  CHECK(norms.local_batch == doctest::Approx(2.4));
  CHECK(norms.global_batch == 5);
  CHECK(norms.workers == 1);
  // Means of 1 / samples: a last batch of 2 in an epoch, then one of 5 that nobody halved.
  heartbeat.sequence = 2;
  heartbeat.local_inverse_batch = 1;
  heartbeat.global_inverse_batch = 1.0 / 2;
  observer.on_heartbeat(WorkerId{1}, heartbeat, 3);
  heartbeat.sequence = 3;
  heartbeat.local_inverse_batch = heartbeat.global_inverse_batch = 1.0 / 5;
  observer.on_heartbeat(WorkerId{1}, heartbeat, 4);
  norms = observer.take(run_of_three(), 5).jobs[0].norms;
  CHECK(norms.local_batch == doctest::Approx(1 / 0.6));
  CHECK(norms.global_batch == doctest::Approx(1 / 0.35));
}

TEST_CASE("reports of an older or unknown generation are not measured") {
  Observer observer(settings_of_three());
  observer.planned(1, WorkerId{1}, 3, 96);
  observer.planned(2, WorkerId{1}, 4, 128);
  observer.on_heartbeat(WorkerId{1}, beat(1, 3, 9, 2, 50), 1);
  observer.on_heartbeat(WorkerId{1}, beat(2, 2, 9, 2, 50), 2);
  observer.on_heartbeat(WorkerId{1}, beat(3, 1, 8, 2, 50), 3);
  const auto view = observer.take(run_of_three(), 4);
  REQUIRE(view.jobs[0].intervals.size() == 1);
  CHECK(view.jobs[0].intervals[0].workers == 4);
}

TEST_CASE("hosts have the price of their class, and every process is paid for") {
  Observer observer(settings_of_three());
  auto run = run_of_three();
  run.agents.push_back({AgentId{3}, "C", 8, core::AgentPhase::kDraining, 0, {}});
  observer.take(run, 0);
  const auto view = observer.take(run, 3600);
  CHECK(view.hosts[0].price_per_worker_hour == 1);
  CHECK(view.hosts[1].host_class == "fast");
  CHECK(view.hosts[1].free_slots == 3);
  CHECK(view.hosts[2].leaving);
  CHECK(view.jobs[0].reachable == 6);  // not on a host that is left
  CHECK(view.jobs[0].worker_seconds == 3 * 3600);
  CHECK(view.jobs[0].cost == doctest::Approx(2 * 1 + 1 * 3));
}

TEST_CASE("where hosts can be had, as many workers are within reach as the run may have") {
  auto settings = settings_of_three();
  settings.max_workers = 20;
  CHECK(Observer(settings).take(run_of_three(), 0).jobs[0].reachable == 6);
  settings.hosts_can_be_had = true;
  CHECK(Observer(settings).take(run_of_three(), 0).jobs[0].reachable == 20);
}

TEST_CASE("patterns of host names") {
  CHECK(fits_pattern("gpu-12", "gpu-*"));
  CHECK(fits_pattern("gpu-12", "*12"));
  CHECK(fits_pattern("gpu-12", "*"));
  CHECK(fits_pattern("a-b-c", "a*b*c"));
  CHECK(fits_pattern("gpu", "gpu*"));
  CHECK_FALSE(fits_pattern("gpu-12", "gpu-"));
  CHECK_FALSE(fits_pattern("cpu-1", "gpu*"));
  CHECK_FALSE(fits_pattern("", "a"));
  CHECK_FALSE(fits_pattern("gpu", "gpu\\"));
}

TEST_CASE("a view comes back from its text as it was, to the last bit") {
  Observer observer(settings_of_three());
  observer.planned(1, WorkerId{1}, 3, 96);
  observer.on_heartbeat(WorkerId{1}, beat(1, 1, 2, 2, 100.0 / 3, 192), 10);
  observer.on_heartbeat(WorkerId{1}, beat(2, 1, 6, 4, 50.1, 576), 10.7);
  const auto view = observer.take(run_of_three(), 11.1);
  const std::string text = to_json(view);
  CHECK(text.find('\n') == std::string::npos);
  const auto back = view_from_json(text);
  REQUIRE(back.ok());
  CHECK(to_json(*back) == text);
  CHECK(back->jobs[0].intervals[1].end_s == view.jobs[0].intervals[1].end_s);
  CHECK(back->jobs[0].members[0].step_s == view.jobs[0].members[0].step_s);
  CHECK(back->jobs[0].batch.at_limit == view.jobs[0].batch.at_limit);
}

TEST_CASE("a decision comes back from its text; what it leaves open stays open") {
  heuristics::Decision decision;
  auto& job = decision.jobs.emplace_back();
  job.workers = 5;
  job.replacements.push_back({7, {"slow", "it is slow", {{"score", 0.5}}}});
  job.reason = {"efficiency_too_low", "efficiency of 6->7 was 0.31 < 0.5", {{"efficiency", 0.31}, {"target", 0.5}}};
  const auto back = decision_from_json(to_json(decision));
  REQUIRE(back.ok());
  const auto& same = back->jobs.at(0);
  CHECK(same.workers == 5);
  CHECK(same.replacements.at(0).worker == 7);
  CHECK(same.reason.text == job.reason.text);
  CHECK(same.reason.numbers.size() == 2);
  CHECK_FALSE(same.per_worker_batch.has_value());
  CHECK_FALSE(same.topology.has_value());
}

TEST_CASE("the error of an invalid decision names its place") {
  const auto problem = [](const char* text) { return decision_from_json(text).error().message; };
  CHECK(problem("rubbish") == "the decision is not JSON");
  CHECK(problem("[]") == "the decision must be an object");
  CHECK(problem(R"({"jobs":[{"workers":-1}]})") ==
        R"(the decision: "jobs[0].workers" must be a whole number that is not negative)");
  CHECK(problem(R"({"jobs":[{"reason":{"numbers":{"a":"b"}}}]})") ==
        R"(the decision: "jobs[0].reason.numbers" must be an object of numbers)");
  CHECK(decision_from_json(R"({"jobs":[{"later":1}]})").ok());  // of a newer program
}

struct Nothing final : heuristics::PolicyState {
  std::unique_ptr<heuristics::PolicyState> clone() const override { return std::make_unique<Nothing>(); }
};

// Returns the decision that the test has set.
class Says final : public heuristics::Policy {
 public:
  explicit Says(std::shared_ptr<heuristics::JobDecision> next) : next_(std::move(next)) {}
  std::unique_ptr<heuristics::PolicyState> initial_state() const override { return std::make_unique<Nothing>(); }
  heuristics::Decision decide(const heuristics::ClusterView&, heuristics::PolicyState&,
                              heuristics::Rng&) const override {
    return {{*next_}};
  }

 private:
  std::shared_ptr<heuristics::JobDecision> next_;
};

RunnerSettings runner_settings() {
  RunnerSettings settings;
  settings.name = "test";
  settings.observer = settings_of_three();
  return settings;
}

TEST_CASE("a decision becomes events; a size outside of the limits is brought back into them") {
  auto next = std::make_shared<heuristics::JobDecision>();
  Runner runner(runner_settings(), std::make_unique<Says>(next));
  next->workers = 9;
  next->reason = {"grow", "it pays", {}};
  next->replacements = {{2, {}}, {44, {}}};  // the second is not there
  const auto considered = runner.consider(run_of_three(), 5);
  REQUIRE(considered.has_value());
  CHECK(considered->is_news);
  REQUIRE(considered->events.size() == 2);
  CHECK(std::get<core::Resize>(considered->events[0]).target == 6);
  CHECK(std::get<core::Resize>(considered->events[0]).reason == "it pays");
  CHECK(std::get<core::ReplaceWorker>(considered->events[1]).rank == 1);
  CHECK_FALSE(runner.consider(run_of_three(), 5.5).has_value());  // not due
}

TEST_CASE("speeds and a batch become one new sharing-out") {
  auto next = std::make_shared<heuristics::JobDecision>();
  Runner runner(runner_settings(), std::make_unique<Says>(next));
  next->speeds = {{1, 2.0}, {3, 1.0}};
  next->per_worker_batch = 64;
  next->reason = {"rebalance", "w1 is twice as fast", {}};
  const auto considered = runner.consider(run_of_three(), 5);
  REQUIRE(considered->events.size() == 1);
  const auto& update = std::get<core::UpdatePlan>(considered->events[0]);
  CHECK(update.speeds->at(WorkerId{1}) == 2.0);
  CHECK(update.speeds->size() == 2);
  CHECK(update.per_worker == 64);
  CHECK(update.reason == "w1 is twice as fast");
}

TEST_CASE("a topology, a strategy and a rate are carried out where they are not so already") {
  auto next = std::make_shared<heuristics::JobDecision>();
  Runner runner(runner_settings(), std::make_unique<Says>(next));
  next->topology = "star";
  next->synchronization = "s-sgd";  // as it is
  next->learning_rate_factor = 1.004;
  const auto considered = runner.consider(run_of_three(), 5);
  REQUIRE(considered->events.size() == 1);
  const auto& update = std::get<core::UpdatePlan>(considered->events[0]);
  CHECK(update.topology == protocol::Topology::kStar);
  CHECK_FALSE(update.synchronization.has_value());
  CHECK_FALSE(update.learning_rate_factor.has_value());

  next->topology = "1,1,1";
  const auto tree = runner.consider(run_of_three(), 6);
  REQUIRE(tree->events.size() == 1);
  CHECK(std::get<core::UpdatePlan>(tree->events[0]).parents == std::vector<std::uint32_t>{1, 1, 1});
  CHECK_FALSE(std::get<core::UpdatePlan>(tree->events[0]).topology.has_value());
  auto run = run_of_three();
  run.parents = {1, 1, 1};
  CHECK(runner.consider(run, 7)->events.empty());

  next->topology = "heptagon";
  next->learning_rate_factor = 1.02;
  const auto later = runner.consider(run_of_three(), 8);
  REQUIRE(later->events.size() == 1);
  CHECK_FALSE(std::get<core::UpdatePlan>(later->events[0]).topology.has_value());
  CHECK(std::get<core::UpdatePlan>(later->events[0]).learning_rate_factor == 1.02);
}

// Gradients with |G|^2 = 1 of the given noise scale: E|g_b|^2 = 1 + noise / b.
heuristics::JobView noisy_job(double noise_scale) {
  heuristics::JobView job;
  job.batch.per_worker = 32;
  job.base_batch = 32;
  job.norms = {10, 1 + noise_scale / 32, 1 + noise_scale / 64, 32, 64};
  return job;
}

TEST_CASE(
    "the noise scale is reported when it is known, and again when it would change the rate at the largest batch") {
  NoiseWatch watch(heuristics::LearningRateRule::kAdaScale, 4);
  NoiseWatch other(heuristics::LearningRateRule::kLinear, 4);
  for (int i = 0; i < 3; ++i) {
    CHECK_FALSE(watch.take_news().has_value());  // two additions say nothing about the error
    watch.add(noisy_job(96));
    other.add(noisy_job(96));
  }
  CHECK(watch.take_news() == doctest::Approx(96));  // (96/32 + 1) / (96/128 + 1) = 2.29 of the user's rate
  CHECK_FALSE(other.take_news().has_value());
  watch.add(noisy_job(100));
  CHECK_FALSE(watch.take_news().has_value());
  for (int i = 0; i < 2000 && !watch.take_news(); ++i) watch.add(noisy_job(400));
  CHECK_FALSE(watch.take_news().has_value());
}

// (G^2, S) is (-0.35, 51.2) and (0.45, 25.6) by turns: S is 38.4, G^2 may be anything from 0 to 0.36.
TEST_CASE("while only a lower bound of the noise scale is known, the run receives it where it raises the rate") {
  NoiseWatch watch(heuristics::LearningRateRule::kAdaScale, 4);
  for (int i = 0; i < 8; ++i) {
    CHECK_FALSE(watch.take_news().has_value());
    auto job = noisy_job(96);
    job.norms.local_square = 1.25;
    job.norms.global_square = i % 2 == 0 ? 0.45 : 0.85;
    watch.add(job);
  }
  CHECK(watch.take_news() == doctest::Approx(81.5).epsilon(0.03));  // 2.2 times the user's rate at 128 samples
  CHECK_FALSE(watch.take_news().has_value());
}

TEST_CASE("the run receives the noise scale before a new size is requested") {
  auto next = std::make_shared<heuristics::JobDecision>();
  RunnerSettings settings = runner_settings();
  settings.learning_rate = heuristics::LearningRateRule::kAdaScale;
  Runner runner(settings, std::make_unique<Says>(next));
  heuristics::ClusterView earlier;
  earlier.jobs = {noisy_job(96)};
  for (int i = 0; i < 3; ++i) runner.replay(earlier);
  next->workers = 2;
  const auto considered = runner.consider(run_of_three(), 5);
  REQUIRE(considered->events.size() == 2);
  const auto& reported = std::get<core::UpdatePlan>(considered->events[0]);
  CHECK(reported.noise_scale == doctest::Approx(96));
  CHECK(reported.reason == "the gradients' noise scale is 96 samples");
  CHECK(std::get<core::Resize>(considered->events[1]).target == 2);
  CHECK(runner.consider(run_of_three(), 9)->events.size() == 1);
}

TEST_CASE("a repeated decision has no effect, and a change in progress is not disturbed") {
  auto next = std::make_shared<heuristics::JobDecision>();
  Runner runner(runner_settings(), std::make_unique<Says>(next));
  next->reason = {"settled", "size 3 is right", {}};
  CHECK(runner.consider(run_of_three(), 1)->is_news);
  CHECK_FALSE(runner.consider(run_of_three(), 2)->is_news);
  next->workers = 3;  // what it has
  CHECK_FALSE(runner.consider(run_of_three(), 3)->is_news);
  auto changing = run_of_three();
  changing.phase = core::RunPhase::kChanging;
  CHECK_FALSE(runner.consider(changing, 9).has_value());
  // While workers start, the policy sees the others. That it waits is no news.
  changing.gathering = true;
  next->reason = {"changing", "on the way", {}};
  next->workers.reset();
  CHECK_FALSE(runner.consider(changing, 12)->is_news);
  CHECK(runner.last_reason().text == "size 3 is right");
  next->replacements = {{2, {}}};
  CHECK(runner.consider(changing, 15)->events.size() == 1);
}

TEST_CASE("a user's size is the minimum and the maximum of a policy, and the batch is that of the run") {
  auto run = run_of_three();
  run.held = true;
  run.batch.per_worker = 64;
  run.base_batch = 96;
  const auto job = Observer(settings_of_three()).take(run, 1).jobs.at(0);
  CHECK(job.held);
  CHECK(job.min_workers == 3);
  CHECK(job.max_workers == 3);
  CHECK(job.batch.per_worker == 64);
  CHECK(job.base_batch == 96);
}

// A loss of 2.3 at first, of which half of what it loses in all is gone after 3,000 samples.
double falling_loss(double samples) {
  return 0.3 + 2.0 * 3000 / (samples + 3000);
}

protocol::GenerationPlan plan_of_three() {
  protocol::GenerationPlan plan{.generation = 1};
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    plan.members.push_back({.worker = WorkerId{rank + 1}, .rank = rank, .share = 32});
  }
  return plan;
}

TEST_CASE("the length of a job that does not say it is expected by its loss, and a view has it and its error") {
  Runner runner(runner_settings(), std::make_unique<Says>(std::make_shared<heuristics::JobDecision>()));
  auto run = run_of_three();
  run.epoch_samples = 1000;
  CHECK(runner.no_expected_length(run).empty());  // no loss is reported
  runner.planned(plan_of_three());
  for (std::uint64_t i = 1; i <= 400; ++i) {
    auto heartbeat = beat(i, 1, i, 1, 50, i * 50);
    heartbeat.loss = falling_loss(static_cast<double>(i * 50));
    runner.on_heartbeat(WorkerId{1}, heartbeat, 0.1 * static_cast<double>(i));
    if (i == 10) CHECK(runner.no_expected_length(run) == "10 points of the loss so far, 16 are needed");
  }
  const auto view = view_from_json(runner.consider(run, 50)->observed);
  REQUIRE(view.ok());
  const auto& expected = view->jobs.at(0).expected_length;
  REQUIRE(expected.has_value());
  CHECK(std::abs(expected->samples - 53'000) <= 2'000);  // falls by less than 0.0023 an epoch from 48,000 on
  CHECK(expected->error >= 1000);
  run.epochs = 7;  // it says it: that is taken
  CHECK_FALSE(runner.expected_length(run).has_value());
  CHECK(runner.no_expected_length(run).empty());
}

TEST_CASE("the mean loss since the last heartbeat tells a length that the loss of one step is too noisy for") {
  constexpr int kSteps = 25;  // between two heartbeats, of 8 samples each
  Runner by_step(runner_settings(), std::make_unique<Says>(std::make_shared<heuristics::JobDecision>()));
  Runner by_mean(runner_settings(), std::make_unique<Says>(std::make_shared<heuristics::JobDecision>()));
  auto run = run_of_three();
  run.epoch_samples = 10'000;
  by_step.planned(plan_of_three());
  by_mean.planned(plan_of_three());
  std::mt19937_64 rng(11);
  std::normal_distribution<double> noise(0, 0.03);
  for (std::uint64_t beats = 1; beats <= 400; ++beats) {
    double sum = 0, last = 0;
    for (int step = 1; step <= kSteps; ++step) {
      const double samples = 8 * (kSteps * static_cast<double>(beats - 1) + step);
      last = std::max(0.01, 0.3 + 2.0 * 30'000 / (samples + 30'000) + noise(rng));
      sum += last;
    }
    auto heartbeat = beat(beats, 1, beats * kSteps, kSteps, 50, beats * kSteps * 8);
    heartbeat.loss = last;
    by_step.on_heartbeat(WorkerId{1}, heartbeat, 0.1 * static_cast<double>(beats));
    heartbeat.mean_loss = sum / kSteps;
    heartbeat.loss_samples = kSteps * 8;
    by_mean.on_heartbeat(WorkerId{1}, heartbeat, 0.1 * static_cast<double>(beats));
    heartbeat.mean_loss = 1000;  // of another worker: the same steps, at another time
    by_mean.on_heartbeat(WorkerId{2}, heartbeat, 0.1 * static_cast<double>(beats) + 0.05);
  }
  CHECK_FALSE(by_step.expected_length(run).has_value());
  CAPTURE(by_step.no_expected_length(run));
  CAPTURE(by_mean.no_expected_length(run));
  REQUIRE(by_mean.expected_length(run).has_value());
  const auto expected = *by_mean.expected_length(run);
  CHECK(std::abs(expected.samples - 530'000) <= expected.error);
  CHECK(view_from_json(by_mean.consider(run, 50)->observed)->jobs.at(0).loss < 10);
}

TEST_CASE("what a policy says of the goodput at each size stays until it says it anew") {
  auto next = std::make_shared<heuristics::JobDecision>();
  Runner runner(runner_settings(), std::make_unique<Says>(next));
  CHECK(runner.goodput().empty());
  next->goodput = {{1, 10}, {2, 15}};
  CHECK(runner.consider(run_of_three(), 1).has_value());
  next->goodput.clear();
  CHECK(runner.consider(run_of_three(), 3).has_value());
  REQUIRE(runner.goodput().size() == 2);
  CHECK(runner.goodput()[1].rate == 15);
}

TEST_CASE("the losses in the views of an earlier supervisor count") {
  Runner runner(runner_settings(), std::make_unique<Says>(std::make_shared<heuristics::JobDecision>()));
  heuristics::ClusterView earlier;
  heuristics::JobView& job = earlier.jobs.emplace_back();
  job.has_loss = true;
  for (int i = 1; i <= 200; ++i) {
    job.samples_done = i * 100;
    job.loss = falling_loss(job.samples_done);
    runner.replay(earlier);
  }
  auto run = run_of_three();
  run.epoch_samples = 1000;
  REQUIRE(runner.expected_length(run).has_value());
  CHECK(std::abs(runner.expected_length(run)->samples - 53'000) <= 2'000);
}

TEST_CASE("the end of the job is that of the program, unless the user names one") {
  auto run = run_of_three();
  run.epoch_samples = 1000;
  run.epochs = 5;
  CHECK(Observer(settings_of_three()).take(run, 1).jobs[0].samples_total == 5000);
  run.max_steps = 10;
  CHECK(Observer(settings_of_three()).take(run, 1).jobs[0].samples_total == 960);
  auto settings = settings_of_three();
  settings.samples_total = 70;
  CHECK(Observer(settings).take(run, 1).jobs[0].samples_total == 70);
}

TEST_CASE("a synchronization strategy is decided with a fixed size") {
  RunnerSettings settings;
  settings.observer = settings_of_three();
  const auto* adasgd = heuristics::find_policy("adasgd");
  settings.companions = {{"adasgd", heuristics::check_parameters(*adasgd, {{"above_workers", 2.0}}).parameters}};
  Runner runner(settings);
  CHECK_FALSE(runner.is_fixed());
  auto run = run_of_three();
  run.synchronization = protocol::Synchronization::kGradients;
  const auto considered = runner.consider(run, 1);
  REQUIRE(considered.has_value());
  CHECK(considered->is_news);
  CHECK(considered->decision.synchronization == "averaging");
  CHECK(considered->decision.reason.code == "large");
  CHECK(considered->events.size() == 1);
}

TEST_CASE("an interval that is set holds, also where only reports may follow") {
  RunnerSettings settings;
  settings.observer = settings_of_three();
  settings.interval_s = 0.5;
  Runner runner(settings);
  REQUIRE(runner.is_fixed());
  CHECK(runner.consider(run_of_three(), 1).has_value());
  CHECK_FALSE(runner.is_due(1.4));
  CHECK(runner.is_due(1.5));
}

TEST_CASE("a run of fixed size is observed now and then, and nothing is decided") {
  RunnerSettings settings;
  settings.observer = settings_of_three();
  Runner runner(settings);
  CHECK(runner.is_fixed());
  const auto first = runner.consider(run_of_three(), 1);
  REQUIRE(first.has_value());
  CHECK_FALSE(first->is_news);
  CHECK(first->events.empty());
  CHECK(view_from_json(first->observed).ok());
  CHECK_FALSE(runner.is_due(10));
  CHECK(runner.is_due(11));
}

}  // namespace
}  // namespace elastictrain::policy
