// Purpose: the address at which other workers reach this one: a listening TCP socket per address (all on one port) and
// an abstract Unix socket for the workers of the same host. It leaves nothing in the file system.
//
// Ownership: the session keeps it over all generations. Thread: one builder at a time accepts from it; endpoint() from
// any thread. Failure: open() names the address that could not be bound.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "train/comm/communicator.h"
#include "train/comm/socket.h"

namespace elastictrain::comm {

class DataListener {
 public:
  static Result<std::unique_ptr<DataListener>> open(const ListenOptions& options);

  const protocol::Endpoint& endpoint() const { return endpoint_; }

  // For poll(2). Every descriptor is a non-blocking listener; is_unix(i) tells the kind of the i-th one.
  std::size_t size() const { return sockets_.size(); }
  int fd(std::size_t index) const { return sockets_[index].fd(); }
  bool is_unix(std::size_t index) const { return index + 1 == sockets_.size(); }

 private:
  DataListener() = default;
  Status listen_tcp(const std::vector<std::string>& addresses);
  Status listen_unix();

  std::vector<Socket> sockets_;  // the last one is the Unix socket
  protocol::Endpoint endpoint_;
};

}  // namespace elastictrain::comm
