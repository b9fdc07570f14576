// Purpose: the answer to a status request (schema: control_protocol.h) from a snapshot of the run. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "supervisor/control/run_figures.h"

namespace elastictrain::control {

struct StatusFacts {
  std::string journal;     // path
  std::string protection;  // of the traffic between hosts, for users
  std::unordered_map<WorkerId, std::int64_t> pids;
  Instant now;
};

std::string status_answer(const RunFigures& figures, const StatusFacts& facts);

const char* name_of(core::WorkerPhase phase);

}  // namespace elastictrain::control
