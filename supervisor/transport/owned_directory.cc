#include "supervisor/transport/owned_directory.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace elastictrain::transport {
namespace {

constexpr mode_t kParentMode = 0700;

Error cannot(const std::string& what, const std::string& path, const std::string& advice) {
  const bool denied = errno == EACCES || errno == EPERM;
  return {denied ? ErrorCode::kDenied : ErrorCode::kIo,
          "cannot " + what + " " + path + ": " + std::strerror(errno) + "; " + advice};
}

Status make_directories(const DirectoryRequest& request) {
  const std::string& path = request.path;
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    const std::string parent = path.substr(0, slash);
    if (::mkdir(parent.c_str(), kParentMode) != 0 && errno != EEXIST) return cannot("make", parent, request.advice);
  }
  if (::mkdir(path.c_str(), request.mode) != 0 && errno != EEXIST) return cannot("make", path, request.advice);
  return {};
}

Status protect(const DirectoryRequest& request) {
  struct stat found {};
  if (::lstat(request.path.c_str(), &found) != 0) return cannot("look at", request.path, request.advice);
  if ((found.st_mode & 0777) == request.mode || ::chmod(request.path.c_str(), request.mode) == 0) return {};
  return cannot("protect", request.path, request.advice);
}

}  // namespace

std::string name_of_user(uid_t user) {
  const passwd* entry = ::getpwuid(user);
  return "user " + (entry == nullptr ? std::to_string(user) : std::string(entry->pw_name));
}

Status OwnedDirectory::require_own(const DirectoryRequest& request) {
  struct stat found {};
  if (::lstat(request.path.c_str(), &found) != 0) return cannot("look at", request.path, request.advice);
  if (!S_ISDIR(found.st_mode)) {
    return Error{ErrorCode::kRefused, request.path + " is not a directory; remove it, or " + request.advice};
  }
  if (found.st_uid == ::geteuid()) return {};
  return Error{ErrorCode::kDenied, request.path + " belongs to " + name_of_user(found.st_uid) + "; " + request.advice};
}

Result<OwnedDirectory> OwnedDirectory::claim(const DirectoryRequest& request) {
  if (Status made = make_directories(request); !made.ok()) return made.error();
  if (Status own = require_own(request); !own.ok()) return own.error();
  if (Status closed = protect(request); !closed.ok()) return closed.error();
  const std::string path = request.path + "/lock";
  OwnedDescriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (lock.value() < 0) return cannot("open", path, request.advice);
  const std::string socket = request.path + "/" + request.socket;
  const bool is_locked = ::flock(lock.value(), LOCK_EX | LOCK_NB) == 0;
  if ((!is_locked && errno == EWOULDBLOCK) || has_listener(socket)) {
    return Error{ErrorCode::kUnavailable, request.path + " is held by another process"};
  }
  if (::unlink(socket.c_str()) != 0 && errno != ENOENT) return cannot("remove", socket, request.advice);
  return OwnedDirectory(request.path, std::move(lock));
}

DirectoryClaim OwnedDirectory::look(const std::string& path) {
  const OwnedDescriptor lock(::open((path + "/lock").c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  if (lock.value() < 0) return errno == ENOENT ? DirectoryClaim::kNone : DirectoryClaim::kUnknown;
  if (::flock(lock.value(), LOCK_SH | LOCK_NB) == 0) return DirectoryClaim::kNone;
  return errno == EWOULDBLOCK ? DirectoryClaim::kHeld : DirectoryClaim::kUnknown;
}

}  // namespace elastictrain::transport
