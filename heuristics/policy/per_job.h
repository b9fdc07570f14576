// Purpose: building blocks of policies: parameters declared once, and a state for each job.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "heuristics/policy/policy.h"

// The parameters of a policy, declared once. A table binds each parameter of [policy.NAME] to a member of the
// policy's settings struct. The member's initializer is the parameter's default: the list that users see and the value
// that the policy uses both come from it.
//
// Ownership: values. Thread: any; a table does not change once it is built. Errors: none; check_parameters() reports
// wrong values before a policy reads them.

namespace elastictrain::heuristics {

// Allowed values of a number, both ends included.
struct Range {
  double min = 0;
  double max = 0;
};

template <class Settings>
class SettingsTable {
 public:
  // A pointer to a member, or a function where the member is in a part of the settings.
  template <class Member>
  using At = std::function<Member&(Settings&)>;

  // `unit` is "" where there is none.
  SettingsTable& number(std::string name, At<double> at, Range range, std::string unit, std::string help) {
    return add<double>({std::move(name), 0.0, range.min, range.max, {}, std::move(help), std::move(unit)}, at);
  }
  SettingsTable& whole(std::string name, At<std::uint32_t> at, Range range, std::string unit, std::string help) {
    rows_.push_back({{std::move(name), 0.0, range.min, range.max, {}, std::move(help), std::move(unit)},
                     [at](Settings& settings) { return Value(static_cast<double>(at(settings))); },
                     [at](Settings& settings, const Value& value) {
                       at(settings) = static_cast<std::uint32_t>(std::get<double>(value));
                     }});
    return *this;
  }
  SettingsTable& flag(std::string name, At<bool> at, std::string help) {
    return add<bool>({std::move(name), false, 0, 0, {}, std::move(help), ""}, at);
  }
  // Without choices any text is allowed.
  SettingsTable& text(std::string name, At<std::string> at, std::vector<std::string> choices, std::string help) {
    return add<std::string>({std::move(name), std::string(), 0, 0, std::move(choices), std::move(help), ""}, at);
  }
  // A text that `check` finds nothing wrong with; a list of pairs in a file is read as `list_form`.
  SettingsTable& checked_text(std::string name, At<std::string> at,
                              std::function<std::string(const std::string&)> check, std::string list_form,
                              std::string help) {
    return add<std::string>(
        {std::move(name), std::string(), 0, 0, {}, std::move(help), "", std::move(check), std::move(list_form)}, at);
  }

  // With the defaults of `Settings`.
  std::vector<ParameterSpec> parameters() const {
    std::vector<ParameterSpec> all;
    Settings defaults;
    for (const Row& row : rows_) {
      all.push_back(row.spec);
      all.back().default_value = row.get(defaults);
    }
    return all;
  }

  // Checked parameters over the defaults.
  Settings read(const Parameters& given) const {
    Settings settings;
    for (const Row& row : rows_) {
      if (const auto found = given.find(row.spec.name); found != given.end()) row.set(settings, found->second);
    }
    return settings;
  }

  // The inverse of read(): every parameter with its value.
  Parameters write(Settings settings) const {
    Parameters all;
    for (const Row& row : rows_) all[row.spec.name] = row.get(settings);
    return all;
  }

 private:
  struct Row {
    ParameterSpec spec;
    std::function<Value(Settings&)> get;
    std::function<void(Settings&, const Value&)> set;
  };

  template <class Member>
  SettingsTable& add(ParameterSpec spec, At<Member> at) {
    rows_.push_back({std::move(spec), [at](Settings& settings) { return Value(at(settings)); },
                     [at](Settings& settings, const Value& value) { at(settings) = std::get<Member>(value); }});
    return *this;
  }

  std::vector<Row> rows_;
};

// The spec of a policy that is constructed from its settings.
template <class MadePolicy, class Settings>
PolicySpec policy_spec(std::string name, std::string help, const SettingsTable<Settings>& table) {
  PolicySpec spec;
  spec.name = std::move(name);
  spec.help = std::move(help);
  spec.parameters = table.parameters();
  spec.complete = [table](const Parameters& given) { return table.write(table.read(given)); };
  spec.make = [table](const Parameters& given) { return std::make_unique<MadePolicy>(table.read(given)); };
  return spec;
}

// Base of policies that decide for each job separately. Keeps a state per job, found by the job's name; the
// state of a job that is no longer in the view is dropped. Pure.

// `JobState` is copyable. A new job starts with a default-constructed one.
template <typename JobState>
class PerJobPolicy : public Policy {
 public:
  std::unique_ptr<PolicyState> initial_state() const final { return std::make_unique<States>(); }

  Decision decide(const ClusterView& view, PolicyState& state, Rng& rng) const final {
    auto& jobs = static_cast<States&>(state).jobs;
    std::map<std::string, JobState> kept;
    Decision decision;
    for (const auto& job : view.jobs) {
      const auto known = jobs.find(job.name);
      JobState& own =
          kept.try_emplace(job.name, known == jobs.end() ? JobState{} : std::move(known->second)).first->second;
      decision.jobs.push_back(decide_job(view, job, own, rng));
    }
    jobs = std::move(kept);
    return decision;
  }

 protected:
  virtual JobDecision decide_job(const ClusterView& view, const JobView& job, JobState& state, Rng& rng) const = 0;

 private:
  struct States final : PolicyState {
    std::map<std::string, JobState> jobs;
    std::unique_ptr<PolicyState> clone() const override { return std::make_unique<States>(*this); }
  };
};

}  // namespace elastictrain::heuristics
