// Purpose: a cluster, its jobs and its sweeps as text and JSON; no text of theirs makes a line of its own. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/config/sweep_file.h"
#include "cli/output/table.h"

// The texts of a run's or a cluster's answer, which may come from programs, hosts and other users, for tables:
// none of them can make a line of its own. Pure.

namespace elastictrain::cli {

// With the line ends and tabs of every text made visible, at any depth up to that of an answer.
nlohmann::json in_one_line(nlohmann::json value);

// A cluster and its jobs as text, from its answer to `queue`. Pure.

// A line about the cluster, one about its helper jobs if it may have some, then one for each job; with `all` also for
// those that have ended.
std::string render_queue(const nlohmann::json& cluster, bool all, const Room& room = {});

// The line about the cluster, then its hosts with their slots, then the jobs that have not ended.
std::string render_cluster_status(const nlohmann::json& cluster, const Room& room = {});

// A sweep as text and as JSON. Pure.

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
