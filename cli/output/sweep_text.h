// Purpose: a sweep as text and as JSON. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/config/sweep_file.h"
#include "cli/output/table.h"

namespace elastictrain::cli {

struct TrialView {
  std::string name;
  heuristics::sweep::Assignment values;
  std::string state;  // "trains", "waits", "stopped", "ended", "failed (1)", …
  heuristics::sweep::Trial trial;
  std::uint64_t slots = 0;
  std::string why;  // it was stopped, or has not the slots that it wants
};

struct SweepView {
  std::string name;
  std::string metric;  // its name in titles
  heuristics::sweep::StopRule rule;
  std::vector<TrialView> trials;
  std::string problem = {};  // of the sweep itself; empty: none
};

// The best one first, with a line about all of them before.
std::string render_sweep(const SweepView& sweep, const Room& room);
nlohmann::json sweep_json(const SweepView& sweep);

// "lr-4 (accuracy 0.964; lr = 0.1, width = 64)"; nothing: no trial has reported a number.
std::optional<std::string> best_trial(const SweepView& sweep);

}  // namespace elastictrain::cli
