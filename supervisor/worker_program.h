// Purpose: the program that every worker of a run executes. Plain data.
#pragma once

#include <string>
#include <vector>

namespace elastictrain {

struct WorkerProgram {
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // "NAME=value", given to every worker
  std::string working_directory;         // empty: the agent's own
};

}  // namespace elastictrain
