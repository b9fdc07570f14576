#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "heuristics/policy/policy.h"

namespace elastictrain::heuristics {
namespace {

PolicySpec example() {
  return {"example",
          "",
          {{"target", 0.5, 0, 1, {}, ""},
           {"faithful", false, 0, 0, {}, ""},
           {"mode", std::string("a"), 0, 0, {"a", "b"}, ""}},
          {}};
}

TEST_CASE("what is not given has its standard value") {
  const auto checked = check_parameters(example(), {{"target", 0.25}});
  CHECK(checked.problem.empty());
  CHECK(number(checked.parameters, "target") == 0.25);
  CHECK_FALSE(flag(checked.parameters, "faithful"));
  CHECK(text(checked.parameters, "mode") == "a");
}

TEST_CASE("a wrong parameter is named with what would be right") {
  const auto problem = [](const Parameters& given) { return check_parameters(example(), given).problem; };
  CHECK(problem({{"traget", 0.5}}) == "policy \"example\" has no parameter traget; it has target, faithful, mode");
  CHECK(problem({{"target", 1.5}}) == "target must be from 0 to 1, not 1.5");
  CHECK(problem({{"target", true}}) == "target must be a number");
  CHECK(problem({{"mode", std::string("c")}}) == "mode must be one of a, b, not \"c\"");
  CHECK_FALSE(problem({{"target", std::nan("")}}).empty());
}

TEST_CASE(
    "every policy can be made from its standard parameters, decides on an empty view, and has a name of its own") {
  std::set<std::string> names;
  for (const auto& spec : policies()) {
    CAPTURE(spec.name);
    CHECK(names.insert(spec.name).second);
    CHECK(find_policy(spec.name) == &spec);
    const auto checked = check_parameters(spec, {});
    REQUIRE(checked.problem.empty());
    for (const auto& parameter : spec.parameters) {
      CHECK(check_parameters(spec, {{parameter.name, parameter.standard}}).problem.empty());
      CHECK_FALSE(parameter.help.empty());
    }
    const auto policy = spec.make(checked.parameters);
    const auto state = policy->initial_state();
    Rng rng(1);
    CHECK(policy->decide({}, *state, rng).jobs.empty());
    ClusterView view;
    view.jobs.resize(1);
    view.jobs[0].workers = view.jobs[0].target = view.jobs[0].max_workers = 1;
    const auto decision = policy->decide(view, *state, rng);
    REQUIRE(decision.jobs.size() == 1);
    CHECK_FALSE(decision.jobs[0].reason.code.empty());
  }
  CHECK(find_policy("nobody") == nullptr);
}

}  // namespace
}  // namespace elastictrain::heuristics
