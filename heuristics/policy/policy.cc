#include "heuristics/policy/policy.h"

#include <algorithm>
#include <cstdio>

#include "heuristics/policy/per_job.h"

namespace elastictrain::heuristics {
namespace {

std::string plain(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.12g", value);
  return text;
}

const char* kind_of(const Value& value) {
  if (std::holds_alternative<double>(value)) return "a number";
  return std::holds_alternative<bool>(value) ? "true or false" : "a string";
}

std::string joined(const std::vector<std::string>& format_text) {
  std::string all;
  for (const auto& word : format_text) all += (all.empty() ? "" : ", ") + word;
  return all;
}

// Empty if the value is allowed.
std::string problem_of(const ParameterSpec& spec, const Value& value) {
  if (value.index() != spec.default_value.index()) return spec.name + " must be " + kind_of(spec.default_value);
  if (const auto* given = std::get_if<double>(&value); given && !(*given >= spec.min && *given <= spec.max)) {
    return spec.name + " must be from " + plain(spec.min) + " to " + plain(spec.max) + ", not " + plain(*given);
  }
  const auto* word = std::get_if<std::string>(&value);
  if (word && !spec.choices.empty() && std::find(spec.choices.begin(), spec.choices.end(), *word) == spec.choices.end())
    return spec.name + " must be one of " + joined(spec.choices) + ", not \"" + *word + "\"";
  if (const std::string wrong = word && spec.check ? spec.check(*word) : ""; !wrong.empty()) {
    return spec.name + ": " + wrong;
  }
  return "";
}

}  // namespace

CheckedParameters check_parameters(const PolicySpec& spec, const Parameters& given) {
  CheckedParameters checked;
  std::vector<std::string> known;
  for (const auto& parameter : spec.parameters) known.push_back(parameter.name);
  for (const auto& [name, value] : given) {
    const auto parameter =
        std::find_if(spec.parameters.begin(), spec.parameters.end(),
                     [&name = name](const ParameterSpec& candidate) { return candidate.name == name; });
    if (parameter == spec.parameters.end()) {
      checked.problem = "policy \"" + spec.name + "\" has no parameter " + name + "; it has " +
                        (known.empty() ? std::string("no parameters") : joined(known));
    } else {
      checked.problem = problem_of(*parameter, value);
    }
    if (!checked.problem.empty()) return checked;
  }
  checked.parameters = spec.complete(given);
  return checked;
}

double number(const Parameters& parameters, const std::string& name) {
  return std::get<double>(parameters.at(name));
}

std::uint32_t whole(const Parameters& parameters, const std::string& name) {
  return static_cast<std::uint32_t>(number(parameters, name));
}

bool flag(const Parameters& parameters, const std::string& name) {
  return std::get<bool>(parameters.at(name));
}

const std::string& text(const Parameters& parameters, const std::string& name) {
  return std::get<std::string>(parameters.at(name));
}

namespace {

struct Nothing final : PolicyState {
  std::unique_ptr<PolicyState> clone() const override { return std::make_unique<Nothing>(); }
};

struct NoSettings {};

class Fixed final : public Policy {
 public:
  explicit Fixed(const NoSettings&) {}
  std::unique_ptr<PolicyState> initial_state() const override { return std::make_unique<Nothing>(); }
  Decision decide(const ClusterView& view, PolicyState&, Rng&) const override {
    JobDecision keep;
    keep.reason = {"fixed", "the size is fixed", {}};
    return {std::vector<JobDecision>(view.jobs.size(), keep)};
  }
};

}  // namespace

PolicySpec fixed_policy() {
  return policy_spec<Fixed>("fixed", "keeps the size; only resize and failures change it", SettingsTable<NoSettings>());
}

}  // namespace elastictrain::heuristics
