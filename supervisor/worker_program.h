// Purpose: the program that every worker of a run executes, and the environment of a new worker. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/core/pure/action.h"
#include "supervisor/protocol/ids.h"

// The program that every worker of a run executes. Plain data.

namespace elastictrain {

struct WorkerProgram {
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // "NAME=value", given to every worker
  std::string working_directory;         // empty: the agent's own
};

// The environment of a new worker: torch's names, so that any distributed program starts unmodified, and our
// own. Pure.

struct WorkerSurroundings {
  std::string run_name;
  Generation generation = 0;     // the one that trains now
  std::uint32_t node_count = 1;  // hosts with workers
  std::string master_address;
  std::uint16_t master_port = 0;
  std::uint64_t restarts = 0;  // recoveries of the run so far, and restarts of a plain program
  std::uint32_t max_restarts = 0;
  std::optional<Step> saved_step;             // of the run's newest checkpoint
  bool omp_threads_chosen = false;            // the user has set OMP_NUM_THREADS
  std::vector<std::string> user_environment;  // "NAME=value", overrides all others
};

std::vector<std::string> worker_environment(const core::SpawnWorker& spawn, const WorkerSurroundings& surroundings);

}  // namespace elastictrain
