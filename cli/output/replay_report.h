// Purpose: the past of a cluster beside what the simulator predicts for it, as tables, CSV and JSON. Pure.
#pragma once

#include <string>
#include <vector>

#include "supervisor/cluster/replay/replay.h"

namespace elastictrain::cli {

struct ReplayReport {
  cluster::replay::Past past;
  std::vector<cluster::replay::Prediction> predictions;
};

std::string replay_table(const ReplayReport& report);
std::string replay_csv(const ReplayReport& report);
std::string replay_json(const ReplayReport& report);

}  // namespace elastictrain::cli
