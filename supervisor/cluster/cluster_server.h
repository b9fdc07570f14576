// Purpose: the Unix socket of a cluster: who connects (as the kernel says), and lines of bounded length in both
// directions. It knows no meaning of a line.
//
// Ownership: owns the connections; a handler is not called after it was closed. Thread: the io_context's. Errors: a
// peer that sends too long a line, does not say anything in time, or does not read is dropped.
#pragma once

#include <asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "supervisor/protocol/result.h"

namespace elastictrain::cluster {

struct Peer {
  std::uint32_t uid = 0;
  std::int64_t pid = 0;
};

class ClusterServer {
 public:
  struct Handlers {
    std::function<void(std::uint64_t connection, const Peer& peer, const std::string& line)> line;
    std::function<void(std::uint64_t connection)> closed;
  };

  virtual ~ClusterServer() = default;
  virtual void send(std::uint64_t connection, const std::string& line) = 0;
  // It may be silent from now on: it is a run.
  virtual void keep(std::uint64_t connection) = 0;
  // After what is to be sent; `closed` is not called for it.
  virtual void close(std::uint64_t connection) = 0;
  virtual std::size_t connections() const = 0;

  static Result<std::unique_ptr<ClusterServer>> listen(asio::io_context& io, const std::string& directory,
                                                       bool everyone, Handlers handlers);
};

}  // namespace elastictrain::cluster
