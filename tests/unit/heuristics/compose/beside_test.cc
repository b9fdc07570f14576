#include "heuristics/compose/compose.h"

#include <doctest/doctest.h>

namespace elastictrain::heuristics {
namespace {

struct Calls final : PolicyState {
  std::unique_ptr<PolicyState> clone() const override { return std::make_unique<Calls>(*this); }
  int count = 0;
};

// Wants one worker more with each call.
class Counts final : public Policy {
 public:
  explicit Counts(JobDecision mentions) : mentions_(std::move(mentions)) {}
  std::unique_ptr<PolicyState> initial_state() const override { return std::make_unique<Calls>(); }
  Decision decide(const ClusterView& view, PolicyState& state, Rng&) const override {
    JobDecision now = mentions_;
    const int count = ++static_cast<Calls&>(state).count;
    if (now.workers) *now.workers += static_cast<std::uint32_t>(count);
    return {std::vector<JobDecision>(view.jobs.size(), now)};
  }

 private:
  JobDecision mentions_;
};

JobDecision to_size(std::uint32_t workers) {
  JobDecision decision;
  decision.workers = workers;
  decision.reason = {"grow", "it pays", {{"efficiency", 0.8}}};
  return decision;
}

JobDecision quiet() {
  JobDecision decision;
  decision.reason = {"none_slow", "no worker is slow", {}};
  return decision;
}

JobDecision slow() {
  JobDecision decision;
  decision.workers = 100;
  decision.replacements = {{7, {}}};
  decision.speeds.emplace();
  decision.reason = {"straggler", "worker 7 is slow", {{"slowdown", 1.5}}};
  return decision;
}

JobDecision both(JobDecision one, JobDecision other) {
  const auto policy = beside(std::make_unique<Counts>(std::move(one)), std::make_unique<Counts>(std::move(other)));
  const auto state = policy->initial_state();
  Rng rng(1);
  ClusterView view;
  view.jobs.resize(1);
  return policy->decide(view, *state, rng).jobs.at(0);
}

TEST_CASE("a watcher that found nothing leaves the size's decision as it is") {
  const auto decision = both(to_size(3), quiet());
  CHECK(decision.workers == 4);
  CHECK(decision.reason.code == "grow");
  CHECK(decision.reason.text == "it pays");
}

TEST_CASE("what either wants is wanted, and the first counts where both speak") {
  const auto decision = both(to_size(3), slow());
  CHECK(decision.workers == 4);
  CHECK(decision.replacements.size() == 1);
  CHECK(decision.speeds.has_value());
  CHECK(decision.reason.code == "grow+straggler");
  CHECK(decision.reason.text == "it pays; worker 7 is slow");
  CHECK(decision.reason.numbers.size() == 2);
}

TEST_CASE("with a fixed size only the second policy's reason is shown") {
  JobDecision fixed;
  fixed.reason = {"fixed", "the size is fixed", {}};
  CHECK(both(fixed, slow()).reason.text == "worker 7 is slow");
  CHECK(both(fixed, quiet()).reason.code == "fixed");
}

TEST_CASE("the second policy's reason is shown when it changes something, not in every view") {
  JobDecision idle;
  idle.reason = {"gradients", "s-sgd after 7 steps", {}};
  JobDecision switches = idle;
  switches.synchronization = "averaging";
  const auto with = [](JobDecision other) {
    const auto policy =
        beside(std::make_unique<Counts>(to_size(3)), std::make_unique<Counts>(std::move(other)), Merge::kChanges);
    const auto state = policy->initial_state();
    Rng rng(1);
    ClusterView view;
    view.jobs.resize(1);
    return policy->decide(view, *state, rng).jobs.at(0);
  };
  CHECK(with(idle).reason.code == "grow");
  CHECK(with(switches).reason.code == "grow+gradients");
  CHECK(with(switches).synchronization == "averaging");
  CHECK(with(switches).workers == 4);
}

TEST_CASE("each keeps a state of its own, also in a copy") {
  const auto policy = beside(std::make_unique<Counts>(to_size(0)), std::make_unique<Counts>(quiet()));
  const auto state = policy->initial_state();
  Rng rng(1);
  ClusterView view;
  view.jobs.resize(1);
  CHECK(policy->decide(view, *state, rng).jobs[0].workers == 1);
  const auto copy = state->clone();
  CHECK(policy->decide(view, *state, rng).jobs[0].workers == 2);
  CHECK(policy->decide(view, *copy, rng).jobs[0].workers == 2);
  CHECK(policy->decide(view, *state, rng).jobs[0].workers == 3);
}

}  // namespace
}  // namespace elastictrain::heuristics
