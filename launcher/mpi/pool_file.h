// Purpose: gives the agents of an MPI pool what other agents read from their standard input: a file with one frame for
// each rank, readable by its owner only, in a directory of its own. All hosts of the pool must see it.
//
// Ownership: the file and its directory are removed with the object. Thread: any. Errors: write() names the path.
#pragma once

#include <string>
#include <vector>

#include "supervisor/protocol/agent_messages.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::launcher {

class PoolFile {
 public:
  // In a new directory (0700) within `directory`, which is created if it is missing. One bootstrap for each rank.
  static Result<PoolFile> write(const std::string& directory, const std::vector<protocol::AgentBootstrap>& ranks);
  PoolFile(PoolFile&& other) noexcept;
  PoolFile& operator=(PoolFile&&) = delete;
  ~PoolFile();

  const std::string& path() const { return path_; }

 private:
  explicit PoolFile(std::string path) : path_(std::move(path)) {}
  std::string path_;  // empty: moved from
};

}  // namespace elastictrain::launcher
