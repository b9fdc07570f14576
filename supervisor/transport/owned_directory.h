// Purpose: a directory that one process of one user holds: a run's, a cluster's. The claim is a lock on the file "lock"
// in it; where a file system has no locks, the directory is taken while somebody listens on the socket in it.
//
// Ownership: holds the claim until it is destroyed or its process exits. Thread: any one. Errors: values that name the
// path and say what to do.
#pragma once

#include <sys/types.h>

#include <string>

#include "supervisor/protocol/result.h"
#include "supervisor/transport/local_socket.h"

namespace elastictrain::transport {

// "user ada", or the number of one without a name.
std::string name_of_user(uid_t user);

struct DirectoryRequest {
  std::string path;
  mode_t mode = 0700;
  std::string socket;  // its name in the directory
  std::string advice;  // what to do about a directory that cannot be used: "set …"
};

enum class DirectoryClaim { kNone, kHeld, kUnknown };  // kUnknown: it cannot be looked at, or its locks do not work

class OwnedDirectory {
 public:
  // Makes the directory, and with mode 0700 its parents, if they are missing, and removes the socket of a process that
  // is gone. kUnavailable: another process holds it. kRefused: it is no directory. kDenied: it belongs to another user.
  static Result<OwnedDirectory> claim(const DirectoryRequest& request);
  // Changes nothing, and keeps nobody else from looking.
  static DirectoryClaim look(const std::string& path);
  // kRefused and kDenied as above.
  static Status require_own(const DirectoryRequest& request);

  const std::string& path() const { return path_; }

 private:
  OwnedDirectory(std::string path, OwnedDescriptor lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;
  OwnedDescriptor lock_;
};

}  // namespace elastictrain::transport
