// Purpose: runs as text: all runs of a user as a list, and the status of one. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/output/table.h"

// The runs of a user on this machine as a table or as JSON. Pure.

namespace elastictrain::cli {

struct ListedRun {
  std::string name;
  std::string state;  // the phase of a live run; "ended", "no supervisor", "on HOST", "unreadable"
  std::optional<std::uint64_t> workers;
  std::optional<std::uint64_t> epoch;
  std::optional<std::uint64_t> step;
  std::optional<double> loss;  // of that step, where the program reports it
  std::optional<double> started_unix_s;
  std::optional<double> ended_unix_s;
  std::optional<int> exit_status;
  std::string reason;  // of the end

  bool is_live() const { return !exit_status && state != "unreadable"; }
};

// Live ones first; then the newest first.
void sort_runs(std::vector<ListedRun>& runs);

// Local times. No runs: an empty text.
std::string render_runs(const std::vector<ListedRun>& runs, const Room& room = {});

std::string run_json(const ListedRun& run);
// An array of objects on one line; what is not known is null.
std::string runs_json(const std::vector<ListedRun>& runs);

// The answer to `status` as text: state and size, progress, checkpoint, what happened last, what is waited
// for, workers (slowest first), hosts. Pure.

// `status` has the format described in control_protocol.h. Missing values are shown as "-".
std::string render_status(const nlohmann::json& status, const Room& room = {});

}  // namespace elastictrain::cli
