// Purpose: what a batch system (Slurm, PBS, LSF, SGE, Flux) has given to the job that this process runs in: hosts with
// their slots. One file per system reads what that system says; all of them are pure, so that recorded environments
// are their tests.
//
// Thread: any. Failure: names the variable or file that cannot be used, and how to go without it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/host_source.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::launcher {

// In the order in which they are looked for.
enum class Scheduler : std::uint8_t { kNone, kSlurm, kPbs, kLsf, kSge, kFlux };

std::string_view name_of(Scheduler scheduler);

struct Allocation {
  Scheduler scheduler = Scheduler::kNone;
  std::string job_id;
  std::vector<Host> hosts;   // in the batch system's order, each once
  std::string slots_from;    // what the slots were read from, for messages
  std::string this_host;     // the batch system's name of this machine; empty where it does not say
  bool within_task = false;  // Flux: this process is a task of the job, not its batch script
};

// Where the answers come from. A file or an output may be refused for its size.
struct BatchSurroundings {
  std::map<std::string, std::string> variables;
  std::function<Result<std::string>(const std::string& path)> read_file;
  std::function<Result<std::string>(const std::vector<std::string>& argv)> run_command;
};

// The first system whose job identifier is there; kNone outside of jobs.
Scheduler detect_scheduler(const std::map<std::string, std::string>& variables);

// What `scheduler` (not kNone) has allocated.
Result<Allocation> read_allocation(Scheduler scheduler, const BatchSurroundings& around);

// This process's files and commands, which have a deadline.
BatchSurroundings real_surroundings(std::map<std::string, std::string> variables);

}  // namespace elastictrain::launcher
