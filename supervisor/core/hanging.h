// Purpose: acts on members that make no progress: asks what they wait for, reconnects the data plane, ends the worker
// at fault.
#pragma once

#include <string>

#include "supervisor/core/run.h"

namespace elastictrain::core {

void act_on_hang(Run& run, const HangFinding& finding);
// The others continue without it at once, and its process is killed as soon as its stacks are known.
void end_hung(Run& run, Worker& worker, const std::string& what, FailureClass as = FailureClass::kHang);
// What its program does is not known: two heartbeats of its host are missing, or its agent is cut off.
bool is_out_of_sight(const Run& run, const Worker& worker);
void on(Run& run, const AgentAnswered& event);

}  // namespace elastictrain::core
