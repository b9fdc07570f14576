// Purpose: starts and ends worker processes: what is ordered, what is expected by when, what a worker is called in
// messages.
#pragma once

#include <string>
#include <vector>

#include "supervisor/core/run.h"

namespace elastictrain::core {

// Whether the slot of a failed new worker gets a second chance.
enum class Retry : std::uint8_t { kOnce, kNever };

const std::vector<WorkerId>& newest_members(const Run& run);
// "rank 1 (w2 on B)"
std::string name_of(const Run& run, const Worker& worker);
// `next` is the membership that the new workers expect; `fresh` lists those of it (or spares after them) to start now.
void start_workers(Run& run, const std::vector<WorkerId>& next, const std::vector<WorkerId>& fresh);
void expect_ready(Run& run, Worker& worker);
void expect_exit(Run& run, Worker& worker);
void drop_joiner(Run& run, const Worker& worker, const std::string& why, Retry retry);
void expel_joiner(Run& run, WorkerId id, const std::string& why);
// A new worker could not join. If it was started as rank 0 in place of another, this may be why: no further one is.
void note_failed_start(Run& run, const Worker& worker, const std::string& why);
void dismiss(Run& run, Worker& worker, const std::string& reason);
void stop_worker(Run& run, Worker& worker);
// KILL, without a grace.
void end_for_good(Run& run, Worker& worker);
// The process has exited: removes it everywhere.
void remove_worker(Run& run, WorkerId id);

}  // namespace elastictrain::core
