#include "heuristics/batch/adasgd.h"

#include <doctest/doctest.h>

#include <optional>

namespace elastictrain::heuristics {
namespace {

// The policy's decision for a run with this number of steps, workers and this synchronization.
std::optional<std::string> proposal(const Parameters& given, double steps, std::uint32_t workers,
                                    const std::string& now) {
  const auto policy = adasgd_policy().make(check_parameters(adasgd_policy(), given).parameters);
  auto state = policy->initial_state();
  Rng rng(1);
  ClusterView view;
  JobView job;
  job.steps_done = steps;
  job.workers = workers;
  job.synchronization = now;
  view.jobs.push_back(job);
  const auto decision = policy->decide(view, *state, rng).jobs.at(0);
  CHECK_FALSE(decision.reason.text.empty());
  return decision.synchronization;
}

TEST_CASE("models are averaged up to a step, then gradients") {
  const Parameters until{{"until_step", 500.0}, {"above_workers", 0.0}};
  CHECK(proposal(until, 0, 4, "s-sgd") == "averaging");
  CHECK(proposal(until, 499, 4, "averaging") == std::nullopt);
  CHECK(proposal(until, 500, 4, "averaging") == "s-sgd");
  CHECK(proposal(until, 501, 400, "s-sgd") == std::nullopt);
}

TEST_CASE("models are averaged above a size, as often as the size changes") {
  const Parameters above{{"above_workers", 8.0}, {"averaging", std::string("pair-averaging")}};
  CHECK(proposal(above, 10, 8, "s-sgd") == std::nullopt);
  CHECK(proposal(above, 20, 9, "s-sgd") == "pair-averaging");
  CHECK(proposal(above, 30, 8, "pair-averaging") == "s-sgd");
}

}  // namespace
}  // namespace elastictrain::heuristics
