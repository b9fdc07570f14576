// Purpose: the results of `elastictrain simulate` as SVG: the distribution of completion times of each run, and the
// slots of the first run over time by job. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/output/simulation_report.h"

namespace elastictrain::cli {

// A whole SVG document. The first run has its changes.
std::string simulation_svg(const std::vector<SimulatedRun>& runs);

}  // namespace elastictrain::cli
