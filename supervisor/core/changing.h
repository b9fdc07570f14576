// Purpose: a change from its plan to its end: prepare, commit or cancel, try again or give up; what workers report at
// the boundary between two generations; and complete, when every member trains in the new generation and every leaver
// has left.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "supervisor/core/run.h"

namespace elastictrain::core {

// Sends the plan of `change.members` under a new number.
void prepare_change(Run& run);
// A generation without members: all workers leave at the boundary, or where they have halted, and one holder of the
// state writes the checkpoint.
void prepare_stop(Run& run);
void commit_change(Run& run);
// Back to gathering; a plan that was sent is withdrawn.
void cancel_change(Run& run, const std::string& why);
// Every member trains in the new generation and every leaver has left.
void complete_change(Run& run);
// Of advance(): acts on what handlers have found while workers prepare (Change::late, failure, unwanted).
void conclude_attempt(Run& run);
void prepare_timed_out(Run& run);
void retry_change(Run& run);
// A worker reports from within a generation of which it is no member any more, or was given up.
void end_stray(Run& run, Worker& worker);
void on_message(Run& run, Worker& worker, const protocol::WorkerPrepared& message);
void on_message(Run& run, Worker& worker, const protocol::WorkerPrepareFailed& message);
void on_message(Run& run, Worker& worker, const protocol::WorkerActive& message);
void on_message(Run& run, Worker& worker, const protocol::WorkerLeft& message);
void on_message(Run& run, Worker& worker, const protocol::WorkerFinished& message);

// Of the members, by rank.
std::vector<std::uint32_t> shares_of(const protocol::GenerationPlan& plan);

}  // namespace elastictrain::core
