// Purpose: the machine of a run's supervisor, for commands on another machine that sees the same run directory (a login
// node with a shared home): its control socket answers on its own machine only.
//
// The supervisor writes the file when it claims the directory. It is gone for certain where its lock can be taken, and
// there for certain where the lock is held. A file system without locks shows neither; then nobody is kept from taking
// the run over. Thread: any one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace elastictrain {

struct RunPlace {
  std::string host;  // as `hostname` says it there
  std::int64_t pid = 0;
  std::string slurm_job;  // id; empty: none
  bool certain = false;   // its lock is held
};

// Best effort: without the file, other machines take the run for one that has lost its supervisor.
void record_place(const std::string& run_directory);

// Where the supervisor is, if that is another machine and nothing shows that it has ended.
std::optional<RunPlace> supervisor_elsewhere(const std::string& run_directory);

// The same, if it is there for certain: a run that must not be taken over.
std::optional<RunPlace> supervisor_held_elsewhere(const std::string& run_directory);

// "run NAME is supervised on node3 (process 12), …", with a command that asks it.
std::string describe_elsewhere(const std::string& run_name, const RunPlace& place);

}  // namespace elastictrain
