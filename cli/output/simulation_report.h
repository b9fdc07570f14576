// Purpose: the results of `elastictrain simulate` as a table, CSV and JSON. Pure. Numbers in CSV are in shortest exact
// form.
#pragma once

#include <string>
#include <vector>

#include "cli/output/simulated_run.h"

namespace elastictrain::cli {

std::string simulation_table(const std::vector<SimulatedRun>& runs);
std::string simulation_csv(const std::vector<SimulatedRun>& runs);
std::string simulation_json(const std::vector<SimulatedRun>& runs);
// One row per job of one run, and the name of its file.
std::string simulated_jobs_csv(const SimulatedRun& run);
std::string simulated_jobs_name(const SimulatedRun& run);
// "none", "swap:10", "restart:30", "muri".
std::string cost_name(const heuristics::cluster::Cost& cost);

}  // namespace elastictrain::cli
