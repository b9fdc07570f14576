// Purpose: the Unix socket of a cluster: who connects (as the kernel says), and lines of bounded length in both
// directions. It knows no meaning of a line.
//
// Nothing more is read from a peer for whom something waits to be sent. What users other than the cluster's own and
// root may have is bounded for each of them: connections, the length of a line, bytes that wait in both directions, and
// lines a second, by a bucket that lines and answers empty by their length. Over it a line waits, and nobody is refused
// for it. Places are kept for the cluster's user and root.
//
// Ownership: owns the connections; a handler is not called after it was closed. Thread: the io_context's. Errors: a
// peer that sends too long a line, does not say anything in time, or does not read is dropped.
#pragma once

#include <asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "supervisor/protocol/result.h"
#include "supervisor/transport/local_socket.h"

namespace elastictrain::cluster {

using transport::Peer;

struct ServerBounds {
  std::size_t connections = 8192;
  std::size_t kept_connections = 1024;  // of these, for the cluster's user and root
  // Of one other user:
  std::size_t connections_of_user = 256;
  std::size_t line_bytes = 128u << 10;
  std::size_t waiting_bytes = 8u << 20;   // on one connection, before it is dropped
  std::size_t bytes_of_user = 16u << 20;  // lines that are not whole yet, or wait, on all connections
  double lines_per_s = 200;
  double lines_at_once = 400;
  std::size_t bytes_of_line = 4096;  // longer lines, and answers, count as several
  // Lines that are written down hold up all others while a disk takes them. As many at once as a user may have jobs.
  double records_per_s = 10;
  double records_at_once = 256;
  // Of a peer that is no run, or is to be closed and does not read.
  std::chrono::milliseconds silence{10'000};
};

class ClusterServer {
 public:
  using WhoIs = std::function<std::optional<Peer>(int socket)>;
  struct Handlers {
    std::function<void(std::uint64_t connection, const Peer& peer, const std::string& line)> line;
    std::function<void(std::uint64_t connection)> closed;
  };

  virtual ~ClusterServer() = default;
  virtual void send(std::uint64_t connection, const std::string& line) = 0;
  // What it has said last was written down.
  virtual void note_record(std::uint64_t connection) = 0;
  // At once, as far as it goes without waiting: the process is about to end.
  virtual void send_last(std::uint64_t connection, const std::string& line) = 0;
  // It may be silent from now on: it is a run.
  virtual void keep(std::uint64_t connection) = 0;
  // After what is to be sent; `closed` is not called for it.
  virtual void close(std::uint64_t connection) = 0;
  virtual std::size_t connections() const = 0;

  static Result<std::unique_ptr<ClusterServer>> listen(asio::io_context& io, const std::string& directory,
                                                       bool everyone, Handlers handlers, ServerBounds bounds = {},
                                                       WhoIs who_is = transport::peer_of);
};

}  // namespace elastictrain::cluster
