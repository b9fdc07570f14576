// Curves with a dip or a plateau, and steps that are noisy or many times as long now and then: how far from the best
// size the search ends, and in how many changes.
//
// No constant of the search was chosen on these curves or seeds: those were random curves of the same kinds.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "heuristics/registry/registry.h"
#include "heuristics/simulate/closed_loop.h"
#include "heuristics/simulate/figures.h"
#include "tests/support/step_curve_job.h"

namespace elastictrain::heuristics {
namespace {

constexpr double kCompute_s = 0.064;

struct Rough {
  std::string name;
  std::function<double(double)> exchange_s;
  double noise = 0.03;
  double outlier_share = 0;
};

std::vector<Rough> rough_curves() {
  const auto saturating = [](double n) { return 0.012 * (n - 1); };
  return {{"dip", [](double n) { return (n >= 3 && n <= 5 ? 0.1 : 0) + 0.002 * (n - 1); }},
          {"plateau", [](double n) { return n <= 4 ? 0.002 * (n - 1) : 0.07 * n / 4 - kCompute_s; }},
          {"noisy", saturating, 0.3},
          {"heavy-tailed", saturating, 0.03, 0.03}};
}

JobModel model_of(const Rough& rough) {
  JobModel model = testing::job_with(kCompute_s, rough.exchange_s);
  model.noise = rough.noise;
  model.outlier_share = rough.outlier_share;
  return model;
}

struct Ends {
  double mean_regret = 0;
  double worst_regret = 0;
  std::size_t most_changes = 0;
};

Ends ends_of(const std::string& name, const Parameters& given, const JobModel& model, const Loss& loss) {
  const PolicySpec& spec = *find_policy(name);
  const auto policy = spec.make(check_parameters(spec, given).parameters);
  const double best = best_fixed_size(model, loss).loss;
  constexpr std::uint64_t kSeeds = 8;
  Ends ends;
  for (const std::uint32_t start : {1U, 2U, 8U}) {
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      LoopSettings settings{.start_workers = start, .view_every_s = 0.5, .seed = 7700 + seed, .longest_s = 300};
      const auto run = run_closed_loop(*policy, model, settings);
      const double regret = fixed_size(model, run.segments.back().workers, loss).loss / best - 1;
      ends.mean_regret += regret / (3 * kSeeds);
      ends.worst_regret = std::max(ends.worst_regret, regret);
      ends.most_changes = std::max(ends.most_changes, run.changes.size());
    }
  }
  return ends;
}

TEST_CASE("on rough curves the search ends near the best size in few changes, whether it knows the job's end or not") {
  for (const Rough& rough : rough_curves()) {
    for (const bool end_is_known : {true, false}) {
      CAPTURE(rough.name);
      CAPTURE(end_is_known);
      JobModel model = model_of(rough);
      model.end_is_known = end_is_known;
      for (const Ends& ends :
           {ends_of("efficiency", {}, model, efficiency_loss(0.5)),
            ends_of("cost", {{"utility", std::string("linear:40,10000")}, {"price_per_worker_hour", 3.6}}, model,
                    cost_loss(Utility::linear(40, 10000), 3.6))}) {
        CHECK(ends.mean_regret < 0.03);
        CHECK(ends.most_changes <= 6);
        if (rough.noise < 0.1 && rough.outlier_share == 0) CHECK(ends.worst_regret < 0.03);
      }
    }
  }
}

// Keeps the reasons of another policy.
class Heard final : public Policy {
 public:
  explicit Heard(std::unique_ptr<Policy> inner) : inner_(std::move(inner)) {}
  std::unique_ptr<PolicyState> initial_state() const override { return inner_->initial_state(); }
  Decision decide(const ClusterView& view, PolicyState& state, Rng& rng) const override {
    Decision decision = inner_->decide(view, state, rng);
    texts.push_back(decision.jobs.at(0).reason.text);
    return decision;
  }
  mutable std::vector<std::string> texts;

 private:
  std::unique_ptr<Policy> inner_;
};

TEST_CASE("where a few steps take many times as long, no more of something are waited for than there are") {
  JobModel model = model_of({"heavy-tailed", [](double n) { return 0.012 * (n - 1); }, 0.03, 0.03});
  const PolicySpec& spec = *find_policy("efficiency");
  const Heard heard(spec.make(check_parameters(spec, {}).parameters));
  run_closed_loop(heard, model, {.start_workers = 1, .view_every_s = 0.5, .seed = 3, .longest_s = 300});
  std::size_t views = 0;
  for (const auto& text : heard.texts) {
    double known = 0, needed = 0;
    if (std::sscanf(text.c_str(), "%lf of %lf ", &known, &needed) != 2) continue;
    CAPTURE(text);
    CHECK(known < needed);
    views += text.find("views") != std::string::npos ? 1 : 0;
  }
  CHECK(views > 0);
}

// No more steps of a size are remembered than 400, so a search that waits for more would never end.
TEST_CASE("however noisy the steps of a long job are, the search ends") {
  JobModel model = model_of({"noisy", [](double n) { return 0.012 * (n - 1); }, 0.4});
  const auto policy = find_policy("efficiency")->make(check_parameters(*find_policy("efficiency"), {}).parameters);
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    const LoopSettings settings{.start_workers = 1, .view_every_s = 0.5, .seed = seed, .longest_s = 1200};
    CHECK(run_closed_loop(*policy, model, settings).said_settled_s >= 0);
  }
}

}  // namespace
}  // namespace elastictrain::heuristics
