// Purpose: the directory of a cluster, and the rule that one name belongs to one cluster process. In it: the socket,
// the journal, and the lock. Ownership: holds the claim (a lock) until it is destroyed. Errors: values that name the
// path and what to do.
#pragma once

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

std::string socket_of_cluster(const std::string& directory);

}  // namespace elastictrain::cluster
