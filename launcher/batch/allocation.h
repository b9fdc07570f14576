// Purpose: the allocation of a batch system for the job of this process: hosts with their slots, from the system
// that is detected. Pure, except for read_surroundings().
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/host_source.h"
#include "supervisor/protocol/result.h"

// The allocation of the batch system (Slurm, PBS, LSF, SGE, Flux) for the job that this process runs in: hosts
// with their slots. One file per system reads that system's data; all of them are pure, so recorded environments are
// their tests.
//
// Thread: any. Errors: the variable or file that cannot be used, and how to run without it.

namespace elastictrain::launcher {

// In the order in which they are looked for.
enum class Scheduler : std::uint8_t { kNone, kSlurm, kPbs, kLsf, kSge, kFlux };

std::string_view name_of(Scheduler scheduler);

struct Allocation {
  Scheduler scheduler = Scheduler::kNone;
  std::string job_id;
  std::vector<Host> hosts;   // in the batch system's order, without duplicates
  std::string slots_from;    // the source of the slots, for messages
  std::string this_host;     // the batch system's name of this machine; empty if it does not report one
  bool within_task = false;  // Flux: this process is a task of the job, not its batch script
};

// The source of the data. A file or an output may be refused for its size.
struct BatchSurroundings {
  std::map<std::string, std::string> variables;
  std::function<Result<std::string>(const std::string& path)> read_file;
  std::function<Result<std::string>(const std::vector<std::string>& argv)> run_command;
};

// The first system whose job identifier is set; kNone outside of jobs.
Scheduler detect_scheduler(const std::map<std::string, std::string>& variables);

// The allocation of `scheduler` (not kNone).
Result<Allocation> read_allocation(Scheduler scheduler, const BatchSurroundings& around);

// This process's files and commands, which have a deadline.
BatchSurroundings real_surroundings(std::map<std::string, std::string> variables);

}  // namespace elastictrain::launcher
