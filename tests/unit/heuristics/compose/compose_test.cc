#include "heuristics/compose/compose.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace elastictrain::heuristics {
namespace {

struct Place final : PolicyState {
  std::size_t next = 0;
  std::unique_ptr<PolicyState> clone() const override { return std::make_unique<Place>(*this); }
};

// Returns the given decisions in order, and the last one from then on.
class Script final : public Policy {
 public:
  explicit Script(std::vector<JobDecision> script) : script_(std::move(script)) {}
  std::unique_ptr<PolicyState> initial_state() const override { return std::make_unique<Place>(); }
  Decision decide(const ClusterView&, PolicyState& state, Rng&) const override {
    auto& place = static_cast<Place&>(state);
    Decision decision;
    decision.jobs.push_back(script_[std::min(place.next++, script_.size() - 1)]);
    return decision;
  }

 private:
  std::vector<JobDecision> script_;
};

JobDecision size(std::uint32_t workers) {
  JobDecision decision;
  decision.workers = workers;
  decision.reason = {"scripted", "as scripted", {}};
  return decision;
}

std::unique_ptr<Policy> targets(const std::vector<std::uint32_t>& sizes) {
  std::vector<JobDecision> script;
  for (const auto workers : sizes) script.push_back(size(workers));
  return std::make_unique<Script>(std::move(script));
}

ClusterView view_at(double now_s, std::uint32_t workers) {
  ClusterView view;
  view.now_s = now_s;
  view.jobs.resize(1);
  view.jobs[0].workers = view.jobs[0].target = workers;
  view.jobs[0].min_workers = 2;
  view.jobs[0].max_workers = view.jobs[0].reachable = 100;
  return view;
}

// Its decisions on the given views in order.
struct Run {
  explicit Run(std::unique_ptr<Policy> made) : policy(std::move(made)), state(policy->initial_state()) {}
  JobDecision operator()(const ClusterView& view) { return policy->decide(view, *state, rng).jobs.at(0); }
  std::unique_ptr<Policy> policy;
  std::unique_ptr<PolicyState> state;
  Rng rng{1};
};

TEST_CASE("the reason of a size that rests at its limit names the limit") {
  JobDecision settled;
  settled.reason = {"settled", "efficiency of 1->4 was 1.00 > 0.5", {}};
  settled.wants_more = true;
  Run run(with_limits(std::make_unique<Script>(std::vector<JobDecision>{settled})));
  auto view = view_at(0, 4);
  CHECK(run(view).reason.text == settled.reason.text);
  view.jobs[0].max_workers = 4;
  CHECK(run(view).reason.text == settled.reason.text + "; workers.max allows no more");
  view.jobs[0].max_workers = 8;
  view.jobs[0].reachable = 4;
  CHECK(run(view).reason.text == settled.reason.text + "; the hosts have no slot for more");
  view.jobs[0].batch = {.per_worker = 8, .max_global = 32, .at_limit = AtLimit::kStop};
  CHECK(run(view).reason.text == settled.reason.text + "; batch.max_global = 32 leaves no samples for more");
  view.jobs[0].held = true;
  view.jobs[0].min_workers = view.jobs[0].max_workers = 4;
  CHECK(run(view).reason.text.find("a user holds this size") != std::string::npos);
}

TEST_CASE("the reason of a size that rests at a limit but wants no more names none, unless a user holds the size") {
  JobDecision settled;
  settled.reason = {"settled", "utility 0.50 of 0.35 to 0.65", {}};
  Run run(with_limits(std::make_unique<Script>(std::vector<JobDecision>{settled})));
  auto view = view_at(0, 4);
  view.jobs[0].max_workers = view.jobs[0].reachable = 4;
  CHECK(run(view).reason.text == settled.reason.text);
  view.jobs[0].held = true;
  CHECK(run(view).reason.text.find("a user holds this size") != std::string::npos);
}

TEST_CASE("limits hold back what the job, the hosts and the batch do not allow") {
  Run run(with_limits(targets({50})));
  auto view = view_at(0, 8);
  CHECK(run(view).workers == 50);
  view.jobs[0].max_workers = 40;
  CHECK(run(view).workers == 40);
  view.jobs[0].reachable = 30;
  CHECK(run(view).workers == 30);
  view.jobs[0].batch.per_worker = 32;
  view.jobs[0].batch.max_global = 640;
  view.jobs[0].batch.at_limit = AtLimit::kStop;
  const auto held = run(view);
  CHECK(held.workers == 20);  // 640 / 32
  CHECK(held.reason.text ==
        "50 workers desired, 2 to 20 possible (batch.max_global = 640 leaves no samples for more): "
        "as scripted");
  view.jobs[0].workers = view.jobs[0].target = 20;
  CHECK_FALSE(run(view).workers);  // the desired size is dropped
  CHECK(Run(with_limits(targets({1})))(view_at(0, 8)).workers == 2);
}

TEST_CASE("a cool-down permits a repeated request, but not another size") {
  Run run(with_cool_down(targets({8, 8, 12, 12}), 60));
  CHECK(run(view_at(0, 4)).workers == 8);
  CHECK(run(view_at(10, 4)).workers == 8);
  const auto held = run(view_at(30, 8));
  CHECK_FALSE(held.workers);
  CHECK(held.reason.code == "cool_down");
  CHECK(held.reason.text == "12 workers desired 30.0 s after the last change, 1m 00s must pass: as scripted");
  CHECK(run(view_at(61, 8)).workers == 12);
}

TEST_CASE("a cool-down does not keep a job outside of its limits") {
  Run run(with_cool_down(targets({8, 6}), 60));
  CHECK(run(view_at(0, 4)).workers == 8);
  auto view = view_at(10, 8);
  view.jobs[0].reachable = 6;
  CHECK(run(view).workers == 6);
}

TEST_CASE("hysteresis requires a large change or a repeated request") {
  Run run(with_hysteresis(targets({11, 10, 11, 11, 11, 20}), 0.2, 3));
  CHECK_FALSE(run(view_at(0, 10)).workers);              // 10 % only
  CHECK(run(view_at(1, 10)).reason.code == "scripted");  // the present size: nothing to hold
  CHECK_FALSE(run(view_at(2, 10)).workers);
  CHECK_FALSE(run(view_at(3, 10)).workers);
  CHECK(run(view_at(4, 10)).workers == 11);  // the third consecutive one
  CHECK(run(view_at(5, 10)).workers == 20);
}

TEST_CASE("a copied state of a composition is independent") {
  Run run(with_cool_down(with_limits(targets({8, 12})), 60));
  run(view_at(0, 4));
  const auto copy = run.state->clone();
  CHECK_FALSE(run(view_at(10, 8)).workers);
  Rng rng(1);
  CHECK_FALSE(run.policy->decide(view_at(10, 8), *copy, rng).jobs[0].workers);
  CHECK(run.policy->decide(view_at(70, 8), *copy, rng).jobs[0].workers == 12);
}

}  // namespace
}  // namespace elastictrain::heuristics
