// Purpose: the interface of every policy and its parameters, and the policy that keeps the size.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "heuristics/policy/decision.h"
#include "heuristics/policy/view.h"

// The interface of every policy and its parameters.
//
// A policy is immutable. Its memory between calls is a state that the caller keeps, so a replay of the same views from
// the same state and seed gives the same decisions, live and simulated. Pure: no clock, no I/O, no globals. A call must
// take at most 1 ms at 10,000 workers. Errors: an inconsistent view gives "no change" with the reason.

namespace elastictrain::heuristics {

using Rng = std::mt19937_64;

class PolicyState {
 public:
  virtual ~PolicyState() = default;
  virtual std::unique_ptr<PolicyState> clone() const = 0;
};

class Policy {
 public:
  virtual ~Policy() = default;
  virtual std::unique_ptr<PolicyState> initial_state() const = 0;
  // `state` must come from this policy's initial_state().
  virtual Decision decide(const ClusterView& view, PolicyState& state, Rng& rng) const = 0;
};

// Settings under [policy.NAME]. Names include their unit.
using Value = std::variant<double, bool, std::string>;
using Parameters = std::map<std::string, Value>;

struct ParameterSpec {
  std::string name;
  Value default_value;
  double min = 0;  // of a number
  double max = 0;
  std::vector<std::string> choices;  // of a text; empty: any
  std::string help;
  std::string unit;  // "" where there is none
  // Of a text: what is wrong with it, empty: nothing.
  std::function<std::string(const std::string&)> check = {};
  std::string list_form = {};  // of a text: [[a, b], …] in a file is "FORM:a:b,…"; empty: no list is allowed
};

struct PolicySpec {
  std::string name;
  std::string help;  // one line
  std::vector<ParameterSpec> parameters;
  // Every parameter with the value that the policy uses, given some checked ones.
  std::function<Parameters(const Parameters&)> complete;
  std::function<std::unique_ptr<Policy>(const Parameters&)> make;  // from checked parameters
  bool decides_size = true;                                        // false: it can run next to a policy that does
};

// The given parameters over the defaults. `problem` names the first mistake (unknown name, out of range) and what is
// allowed.
struct CheckedParameters {
  Parameters parameters;
  std::string problem;  // empty: none
};
CheckedParameters check_parameters(const PolicySpec& spec, const Parameters& given);

double number(const Parameters& parameters, const std::string& name);
std::uint32_t whole(const Parameters& parameters, const std::string& name);
bool flag(const Parameters& parameters, const std::string& name);
const std::string& text(const Parameters& parameters, const std::string& name);

// The policy of a run that keeps its size: only `elastictrain resize` and failures change it.

PolicySpec fixed_policy();

}  // namespace elastictrain::heuristics
