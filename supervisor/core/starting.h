// Purpose: starts a run, from hosts to the first generation: whether the run may start, and new workers until they can
// be members: they join the run, report that they are ready, or fail. A program that does not use the library is
// started again as a whole after a failure, as often as the settings allow (torchrun's --max-restarts).
#pragma once

#include <cstddef>
#include <string>

#include "supervisor/core/run.h"

namespace elastictrain::core {

void on_message(Run& run, Worker& worker, const protocol::WorkerHello& message);
void on_message(Run& run, Worker& worker, const protocol::WorkerReady& message);
void on_message(Run& run, Worker& worker, const protocol::WorkerAsksEpoch& message);
void on(Run& run, const WorkerSpawnFailed& event);

// Enough slots are there, or no more will come. False: not yet, or the run has failed.
bool may_start(Run& run);
// Before it starts, or starts again: the cluster says when.
bool waits_for_lease(const Run& run);
// No host has answered yet, and some are asked or will be.
bool asks_hosts(const Run& run);
// An agent was lost before anything trained, and its host is tried again: as long as at the start.
bool waits_for_hosts(Run& run);
std::string why_too_few(const Run& run, std::size_t count);

// A process of a plain program failed, `why` says how. Ends the others; false if no restart is left: the run fails.
bool restart_plain(Run& run, const std::string& why);
// Processes of before the restart are still ending: none is started meanwhile.
bool clears_plain(Run& run);

}  // namespace elastictrain::core
