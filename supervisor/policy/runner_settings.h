// Purpose: settings of the policy that decides on a run's size and of what watches beside it, as plain data, checked by
// the configuration, and the policy built from them. Thread: any one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "heuristics/batch_plan.h"
#include "heuristics/convergence/convergence.h"
#include "heuristics/policy/policy.h"
#include "supervisor/policy/external_policy.h"
#include "supervisor/policy/observer.h"

namespace elastictrain::policy {

// A policy that decides on something other than the size.
struct Companion {
  std::string name;
  heuristics::Parameters parameters;  // complete and checked
};

struct RunnerSettings {
  std::string name = "fixed";
  heuristics::Parameters parameters;  // complete and checked
  std::vector<Companion> companions;
  heuristics::Parameters stragglers;   // of the policy that watches the workers; empty: its defaults
  double interval_s = 0;               // 0: a second, or ten where only reports may follow
  double cool_down_s = 0;              // between two changes of the size that the policy requests
  double hysteresis = 0;               // a request must differ from the present size by this share …
  std::uint32_t hysteresis_views = 3;  // … or be repeated this often
  std::uint64_t seed = 0;
  Outside outside;  // replaces the policy of that name
  Outside utility;  // its program says what the finished job is worth; none: as the policy's settings say
  heuristics::LearningRateRule learning_rate = heuristics::LearningRateRule::kNone;
  heuristics::ConvergenceSettings convergence;
  ObserverSettings observer;
};

// The policy that decides on the size (the named one, if none is passed), with its companions and the straggler watch
// next to it.
std::unique_ptr<heuristics::Policy> make_policy(const RunnerSettings& settings,
                                                std::unique_ptr<heuristics::Policy> for_size = nullptr);

// Whether any policy changes the number of workers by itself.
bool decides_size(const RunnerSettings& settings);

// The name for users: its name, its file, or its argument.
std::string display_name(const RunnerSettings& settings);

}  // namespace elastictrain::policy
