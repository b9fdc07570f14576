// Purpose: the directory (0700) that holds an agent's sockets and its workers' error files. A lock distinguishes the
// directory of a running agent from one that a killed agent has left behind; the latter are removed.
//
// Ownership: the directory exists as long as the object. Thread: any. Errors: create() reports why there is none.
#pragma once

#include <string>
#include <vector>

#include "supervisor/protocol/result.h"

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

}  // namespace elastictrain::launcher
