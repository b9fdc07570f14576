#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "heuristics/policy/per_job.h"
#include "heuristics/policy/policy.h"
#include "heuristics/registry/registry.h"

namespace elastictrain::heuristics {
namespace {

struct ExampleSettings {
  double target = 0.5;
  std::uint32_t steps = 20;
  bool faithful = false;
  std::string mode = "a";
};

class Example final : public Policy {
 public:
  explicit Example(const ExampleSettings&) {}
  std::unique_ptr<PolicyState> initial_state() const override { return nullptr; }
  Decision decide(const ClusterView&, PolicyState&, Rng&) const override { return {}; }
};

SettingsTable<ExampleSettings> example_table() {
  SettingsTable<ExampleSettings> table;
  table.number("target", &ExampleSettings::target, {0, 1}, "", "")
      .whole("steps", &ExampleSettings::steps, {1, 100}, "steps", "")
      .flag("faithful", &ExampleSettings::faithful, "")
      .text("mode", &ExampleSettings::mode, {"a", "b"}, "");
  return table;
}

PolicySpec example() {
  return policy_spec<Example>("example", "", example_table());
}

// An allowed value of the parameter that is not its default.
Value other_value(const ParameterSpec& parameter) {
  if (const auto* on = std::get_if<bool>(&parameter.default_value)) return !*on;
  if (const auto* number = std::get_if<double>(&parameter.default_value)) {
    return *number == parameter.max ? parameter.min : parameter.max;
  }
  const std::string& usual = std::get<std::string>(parameter.default_value);
  for (const std::string& choice : parameter.choices) {
    if (choice != usual) return choice;
  }
  return usual + "x";
}

Parameters listed_defaults(const PolicySpec& spec) {
  Parameters listed;
  for (const auto& parameter : spec.parameters) listed[parameter.name] = parameter.default_value;
  return listed;
}

TEST_CASE("a parameter that is not given has its default") {
  const auto checked = check_parameters(example(), {{"target", 0.25}});
  CHECK(checked.problem.empty());
  CHECK(number(checked.parameters, "target") == 0.25);
  CHECK_FALSE(flag(checked.parameters, "faithful"));
  CHECK(text(checked.parameters, "mode") == "a");
}

TEST_CASE("a wrong parameter is named with what would be right") {
  const auto problem = [](const Parameters& given) { return check_parameters(example(), given).problem; };
  CHECK(problem({{"traget", 0.5}}) ==
        "policy \"example\" has no parameter traget; it has target, steps, faithful, mode");
  CHECK(problem({{"target", 1.5}}) == "target must be from 0 to 1, not 1.5");
  CHECK(problem({{"target", true}}) == "target must be a number");
  CHECK(problem({{"mode", std::string("c")}}) == "mode must be one of a, b, not \"c\"");
  CHECK_FALSE(problem({{"target", std::nan("")}}).empty());
}

TEST_CASE("the defaults of a table are those of the settings it fills") {
  const ExampleSettings settings = example_table().read({});
  CHECK(example_table().write(settings) == listed_defaults(example()));
  const ExampleSettings changed = example_table().read({{"steps", 7.0}, {"mode", std::string("b")}});
  CHECK(changed.steps == 7);
  CHECK(changed.mode == "b");
  CHECK(changed.target == settings.target);
}

TEST_CASE("every policy uses the defaults that are listed, and each parameter that is given") {
  for (const auto& spec : policies()) {
    CAPTURE(spec.name);
    const Parameters listed = listed_defaults(spec);
    CHECK(listed.size() == spec.parameters.size());
    CHECK(spec.complete({}) == listed);
    for (const auto& parameter : spec.parameters) {
      CAPTURE(parameter.name);
      Parameters expected = listed;
      expected[parameter.name] = other_value(parameter);
      CHECK(spec.complete({{parameter.name, expected[parameter.name]}}) == expected);
    }
  }
}

TEST_CASE("every policy can be made from its default parameters, decides on an empty view, and has a name of its own") {
  std::set<std::string> names;
  for (const auto& spec : policies()) {
    CAPTURE(spec.name);
    CHECK(names.insert(spec.name).second);
    CHECK(find_policy(spec.name) == &spec);
    const auto checked = check_parameters(spec, {});
    REQUIRE(checked.problem.empty());
    for (const auto& parameter : spec.parameters) {
      CHECK(check_parameters(spec, {{parameter.name, parameter.default_value}}).problem.empty());
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
