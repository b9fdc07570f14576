#include "supervisor/cluster/cluster_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "supervisor/cluster/lease_protocol.h"

namespace elastictrain::cluster {
namespace {

Error cannot_use(const std::string& what, const std::string& path) {
  return {ErrorCode::kIo, "cannot " + what + " " + path + ": " + std::strerror(errno)};
}

Status make_directories(const std::string& path, mode_t mode) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    const std::string parent = path.substr(0, slash);
    if (::mkdir(parent.c_str(), 0700) != 0 && errno != EEXIST) return cannot_use("make", parent);
  }
  if (::mkdir(path.c_str(), mode) != 0 && errno != EEXIST) return cannot_use("make", path);
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return cannot_use("look at", path);
  if (!S_ISDIR(found.st_mode) || found.st_uid != ::geteuid()) {
    return Error{ErrorCode::kRefused,
                 path + " is not a directory that you own; choose another: directory in cluster.toml"};
  }
  if ((found.st_mode & 0777) != mode && ::chmod(path.c_str(), mode) != 0) return cannot_use("protect", path);
  return {};
}

}  // namespace

Result<ClusterPlace> ClusterPlace::claim(const std::string& directory, bool everyone) {
  if (Status made = make_directories(directory, everyone ? 0755 : 0700); !made.ok()) return made.error();
  const std::string path = directory + "/lock";
  const int lock = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock < 0) return cannot_use("open", path);
  ClusterPlace place(directory, lock);
  if (::flock(lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return Error{ErrorCode::kUnavailable,
                 "a cluster is already running in " + directory +
                     "; end it (TERM; its runs go on) or give this one another name or directory"};
  }
  if (::unlink(place.socket().c_str()) != 0 && errno != ENOENT) return cannot_use("remove", place.socket());
  return place;
}

std::string socket_of_cluster(const std::string& directory) {
  return directory + "/" + kClusterSocketName;
}

ClusterPlace::~ClusterPlace() {
  if (lock_ >= 0) ::close(lock_);
}
ClusterPlace::ClusterPlace(ClusterPlace&& other) noexcept
    : directory_(std::move(other.directory_)), lock_(std::exchange(other.lock_, -1)) {}

std::string ClusterPlace::socket() const {
  return socket_of_cluster(directory_);
}
std::string ClusterPlace::journal() const {
  return directory_ + "/journal.jsonl";
}

}  // namespace elastictrain::cluster
