// Purpose: the runs of `elastictrain simulate`: every trace under every policy on every cluster size, side by side on
// all cores. The result does not depend on the number of cores.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/traces/traces.h"
#include "heuristics/simulate/cluster/cluster_figures.h"

namespace elastictrain::cli {

struct SimulatedRun {
  const heuristics::cluster::Trace* trace = nullptr;
  const heuristics::sharing::PolicySpec* policy = nullptr;
  heuristics::cluster::Options options;
  heuristics::cluster::Outcome outcome;
  heuristics::cluster::ClusterFigures figures;
  std::vector<heuristics::cluster::Change> changes;  // if they are kept
  double wall_s = 0;
};

// Fills in outcome, figures and wall_s of each. `done` is called from any thread after each run, one call at a time.
void simulate_all(std::vector<SimulatedRun>& runs, bool keep_changes, const std::function<void(std::size_t)>& done);

}  // namespace elastictrain::cli
