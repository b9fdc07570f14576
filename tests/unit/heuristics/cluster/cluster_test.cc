// Properties of simulated clusters, for all policies that they hold for.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/unit/heuristics/sharing/sharing_jobs.h"

namespace elastictrain::heuristics::cluster {
namespace {

using sharing::job_of;
using sharing::outcome_of;
using sharing::trace_of;

constexpr std::uint32_t kSlots = 16;

// Jobs with concave curves of a few kinds; `seed` decides all.
Trace random_trace(std::uint64_t seed, std::size_t jobs = 60) {
  std::mt19937_64 rng(seed);
  const auto below = [&](std::uint64_t end) { return rng() % end; };
  std::vector<std::shared_ptr<const sharing::Curve>> curves;
  for (int kind = 0; kind < 4; ++kind) {
    std::vector<double> rates = {1};
    for (double gain = 0.9; gain > 0.05; gain *= 0.6 + 0.1 * kind) rates.push_back(rates.back() + gain);
    curves.push_back(sharing::curve_of(rates));
  }
  std::vector<TraceJob> list;
  double arrival_s = 0;
  for (std::size_t i = 0; i < jobs; ++i) {
    arrival_s += static_cast<double>(below(60));
    list.push_back(job_of(1 + static_cast<double>(below(1000)), curves[below(4)], 1U << below(4), arrival_s));
  }
  return trace_of(list);
}

Options with_slots(std::uint32_t slots) {
  Options options;
  options.slots = slots;
  return options;
}

std::vector<double> completions(const Trace& trace, const std::string& policy, const Options& options) {
  const Outcome outcome = outcome_of(trace, policy, options);
  REQUIRE(outcome.problem.empty());
  std::vector<double> times;
  for (const JobResult& result : outcome.jobs) times.push_back(result.completion_s);
  return times;
}

// The most slots that jobs held together, after all changes of an instant.
double most_held(const Trace& trace, const sharing::PolicySpec& policy) {
  std::vector<double> held(trace.jobs.size());
  double most = 0, time_s = 0;
  const auto watch = [&](const Change& change) {
    if (change.time_s > time_s) most = std::max(most, std::accumulate(held.begin(), held.end(), 0.0));
    time_s = change.time_s;
    held[change.job] = change.slots;
  };
  const Outcome outcome = simulate(trace, policy, with_slots(kSlots), watch);
  CHECK(outcome.problem == "");
  for (const JobResult& result : outcome.jobs) CHECK(result.completion_s > trace.jobs[result.job].arrival_s);
  return most;
}

TEST_CASE("every policy ends every job, and never holds more slots than there are") {
  for (const sharing::PolicySpec& policy : sharing::sharing_policies()) {
    CAPTURE(policy.name);
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      const double most = most_held(random_trace(seed), policy);
      CHECK(most <= kSlots + 1e-6);
      CHECK(most >= kSlots / 2.0);
    }
  }
}

TEST_CASE("a policy that grants more than there is, or nothing, ends the simulation with a sentence") {
  struct Constant final : sharing::SharingPolicy {
    explicit Constant(double all) : slots(all) {}
    double slots;
    void decide(const sharing::View&, sharing::State&, sharing::Rng&, sharing::Decision& decision) const override {
      for (sharing::Grant& grant : decision.grants) grant.slots = slots;
    }
  };
  for (const double slots : {0.0, 17.0}) {
    const sharing::PolicySpec policy{"constant", "", true, false,
                                     [slots](const sharing::Settings&) { return std::make_unique<Constant>(slots); }};
    CHECK(simulate(random_trace(1), policy, with_slots(kSlots)).problem != "");
  }
}

TEST_CASE("elastic policies leave no slot idle that a job could use") {
  for (const std::string policy : {"max-min", "drf", "themis", "optimus", "afs-l", "afs-p", "worth"}) {
    CAPTURE(policy);
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const Trace trace = random_trace(seed, 12);
      auto view = sharing::view_of(trace, kSlots);
      const auto slots = sharing::slots_by(*sharing::find_sharing_policy(policy)->make({}), view);
      double sum = 0, most = 0;
      for (std::size_t i = 0; i < slots.size(); ++i) {
        sum += slots[i];
        most += std::min(trace.jobs[i].curve->cap(), kSlots);
      }
      CHECK(sum == std::min<double>(most, kSlots));
    }
  }
}

TEST_CASE("under max-min more slots end no job later") {
  for (const std::string policy : {"max-min", "max-min-fluid"}) {
    CAPTURE(policy);
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const Trace trace = random_trace(seed);
      const auto fewer = completions(trace, policy, with_slots(8));
      const auto more = completions(trace, policy, with_slots(11));
      for (std::size_t i = 0; i < fewer.size(); ++i) CHECK(more[i] <= fewer[i] * (1 + 1e-9));
    }
  }
}

TEST_CASE("other names of jobs, and another order of equal jobs, change no sum") {
  for (const sharing::PolicySpec& policy : sharing::sharing_policies()) {
    CAPTURE(policy.name);
    Trace trace = random_trace(7);
    for (std::size_t i = 0; i + 1 < trace.jobs.size(); i += 2) {
      trace.jobs[i + 1] = trace.jobs[i];
      trace.jobs[i + 1].id = "twin";
    }
    const auto before = completions(trace, policy.name, with_slots(kSlots));
    for (std::size_t i = 0; i + 1 < trace.jobs.size(); i += 2) std::swap(trace.jobs[i], trace.jobs[i + 1]);
    for (TraceJob& job : trace.jobs) job.id = "x" + job.id;
    CHECK(completions(trace, policy.name, with_slots(kSlots)) == before);
  }
}

TEST_CASE("changes that cost nothing are the same under every cost model") {
  for (const sharing::PolicySpec& policy : sharing::sharing_policies()) {
    CAPTURE(policy.name);
    const Trace trace = random_trace(3);
    const auto none = completions(trace, policy.name, with_slots(kSlots));
    for (const Cost::Kind kind : {Cost::Kind::kSwap, Cost::Kind::kRestart}) {
      Options options = with_slots(kSlots);
      options.cost = {kind, 0};
      CHECK(completions(trace, policy.name, options) == none);
    }
  }
}

TEST_CASE("a job that grows by a swap goes on at its old size until the new slots count") {
  const auto curve = sharing::linear_curve(2);
  const Trace trace = trace_of({job_of(100, curve, 1), job_of(20, curve, 1)});
  Options options = with_slots(2);
  options.cost = {Cost::Kind::kSwap, 10};
  const auto times = completions(trace, "max-min", options);
  CHECK(times[1] == doctest::Approx(30));             // 10 s of start, 20 s on one slot
  CHECK(times[0] == doctest::Approx(40 + 70 / 2.0));  // 30 s on one slot until its second one counts at 40 s
}

TEST_CASE("a job that grows by a restart stands still") {
  const auto curve = sharing::linear_curve(2);
  const Trace trace = trace_of({job_of(100, curve, 1), job_of(20, curve, 1)});
  Options options = with_slots(2);
  options.cost = {Cost::Kind::kRestart, 10};
  const auto times = completions(trace, "max-min", options);
  CHECK(times[1] == doctest::Approx(30));
  CHECK(times[0] == doctest::Approx(40 + 80 / 2.0));
}

TEST_CASE("a suspended job is back after a second") {
  const auto curve = sharing::linear_curve(1);
  const Trace trace = trace_of({job_of(100, curve, 1), job_of(10, curve, 1, 50)});
  Options options = with_slots(1);
  options.cost = {Cost::Kind::kSwap, 10};
  const auto times = completions(trace, "srtf", options);
  CHECK(times[1] == doctest::Approx(70));           // 10 s of start, 10 s of work
  CHECK(times[0] == doctest::Approx(70 + 1 + 60));  // it had done 40 s of its work
}

TEST_CASE("the figures are those of the definitions") {
  const Trace trace = trace_of({job_of(10, sharing::linear_curve(2), 1), job_of(30, sharing::linear_curve(2), 1)});
  const auto figures = figures_of(trace, outcome_of(trace, "fifo", with_slots(2)), 2);
  CHECK(figures.mean_jct_s == doctest::Approx(20));
  CHECK(figures.median_jct_s == doctest::Approx(30));
  CHECK(figures.makespan_s == doctest::Approx(30));
  CHECK(figures.utilization == doctest::Approx(40.0 / 60));
}

}  // namespace
}  // namespace elastictrain::heuristics::cluster
