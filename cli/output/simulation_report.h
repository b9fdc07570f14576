// Purpose: results of `elastictrain simulate` as tables, CSV and JSON: runs of traces, and the past of a cluster
// beside its prediction. Pure.
#pragma once

#include <string>
#include <vector>

#include "heuristics/simulate/cluster/simulation.h"
#include "supervisor/cluster/replay/replay.h"

// One run of `elastictrain simulate`: a trace under a policy on a cluster, and what came of it.

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

// The results of `elastictrain simulate` as a table, CSV and JSON. Pure. Numbers in CSV are in shortest exact
// form.

std::string simulation_table(const std::vector<SimulatedRun>& runs);
std::string simulation_csv(const std::vector<SimulatedRun>& runs);
std::string simulation_json(const std::vector<SimulatedRun>& runs);
// One row per job of one run, and the name of its file.
std::string simulated_jobs_csv(const SimulatedRun& run);
std::string simulated_jobs_name(const SimulatedRun& run);
// "none", "swap:10", "restart:30", "muri".
std::string cost_name(const heuristics::cluster::Cost& cost);

// The past of a cluster beside what the simulator predicts for it, as tables, CSV and JSON. Pure.

struct ReplayReport {
  cluster::replay::Past past;
  std::vector<cluster::replay::Prediction> predictions;
};

std::string replay_table(const ReplayReport& report);
std::string replay_csv(const ReplayReport& report);
std::string replay_json(const ReplayReport& report);

}  // namespace elastictrain::cli
