// Purpose: the directory of a cluster, and the rule that one name belongs to one cluster process. In it: the socket,
// the journal, and the lock. Ownership: holds the claim (a lock) until it is destroyed. Errors: values that name the
// path and what to do.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>

#include "supervisor/protocol/result.h"

namespace elastictrain::cluster {

class ClusterPlace {
 public:
  // `everyone`: other users may reach the socket.
  static Result<ClusterPlace> claim(const std::string& directory, bool everyone);
  ~ClusterPlace();
  ClusterPlace(ClusterPlace&& other) noexcept;
  ClusterPlace& operator=(ClusterPlace&&) = delete;

  const std::string& directory() const { return directory_; }
  std::string socket() const;
  std::string journal() const;

 private:
  ClusterPlace(std::string directory, int lock) : directory_(std::move(directory)), lock_(lock) {}
  std::string directory_;
  int lock_ = -1;
};

// The address of a cluster's socket, however long its path. The descriptor must stay open while it is used.
struct ClusterAddress {
  ClusterAddress() = default;
  ~ClusterAddress();
  ClusterAddress(ClusterAddress&& other) noexcept;
  ClusterAddress& operator=(ClusterAddress&&) = delete;
  static Result<ClusterAddress> of(const std::string& directory);

  const sockaddr* generic() const { return reinterpret_cast<const sockaddr*>(&address); }
  sockaddr_un address{};
  int opened = -1;
};

}  // namespace elastictrain::cluster
