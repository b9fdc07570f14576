// Purpose: the private directory (0700) of an agent, and the record in it by which a newer agent of the same run
// ends an older one on its host.
#pragma once

#include <string>
#include <vector>

#include "supervisor/protocol/agent_messages.h"
#include "supervisor/protocol/result.h"

// The directory (0700) that holds an agent's sockets and its workers' error files. A lock distinguishes the
// directory of a running agent from one that a killed agent has left behind; the latter are removed.
//
// Ownership: the directory exists as long as the object. Thread: any. Errors: create() reports why there is none.

namespace elastictrain::launcher {

class PrivateDirectory {
 public:
  // In the first of these that is usable: `base`, then /tmp. Socket paths must stay short enough for the kernel.
  static Result<PrivateDirectory> create(const std::string& base);
  PrivateDirectory(PrivateDirectory&& other) noexcept;
  PrivateDirectory& operator=(PrivateDirectory&&) = delete;
  ~PrivateDirectory();

  const std::string& path() const { return path_; }

 private:
  PrivateDirectory(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}
  std::string path_;
  int lock_ = -1;
};

// The directories in `base` that agents of this user have created.
std::vector<std::string> agent_directories(const std::string& base);

// $XDG_RUNTIME_DIR, or /tmp if it is not set.
std::string default_directory_base();

// Records the agent that owns a private directory, so that an agent that is launched again on a host ends the
// one of the same run that was given up there: their workers must not compete for the host's slots.
//
// Thread: any. Errors: an agent that cannot be found is left running; it ends by itself after its orphan grace.

// Records the identity of this agent in its directory: the run (by a hash of its key), the host's name, the agent's id
// and its process. Without this record it matches no run.
void write_identity(const std::string& directory, const protocol::AgentBootstrap& bootstrap);

// Kills the agents next to `own_directory` that serve the same run on the same host with a lower id, and with them
// (through their guardians) what they started. Returns how many there were.
int end_older_agents(const std::string& own_directory, const protocol::AgentBootstrap& bootstrap);

}  // namespace elastictrain::launcher
