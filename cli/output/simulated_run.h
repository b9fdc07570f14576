// Purpose: one run of `elastictrain simulate`: a trace under a policy on a cluster, and what came of it.
#pragma once

#include <vector>

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

}  // namespace elastictrain::cli
