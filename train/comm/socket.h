// Purpose: sockets of the data plane: ownership of a descriptor, TCP options, and blocking transfers with a deadline
// for code that is not time-critical (state transfer, build).
//
// Ownership: Socket closes its descriptor. All descriptors are close-on-exec and non-blocking, and a forked child does
// not have them (fork_guard.h). Thread: one at a time. Failure: kPeerLost if the peer disconnected, kTimeout at the
// deadline, kAborted if the token was cancelled.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "supervisor/protocol/result.h"
#include "train/comm/cancel_token.h"

namespace elastictrain::comm {

using Deadline = std::chrono::steady_clock::time_point;

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd);
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Socket() { reset(); }

  int fd() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void reset();

 private:
  int fd_ = -1;
};

// The options in effect on a connected TCP socket, for reports.
struct TcpOptions {
  std::string congestion_control;
  int send_buffer_bytes = 0;
  int receive_buffer_bytes = 0;
  bool loopback = false;  // the peer is on this machine
};

// Always sets TCP_NODELAY. For a peer on this machine it also sets explicit buffer sizes and a congestion control
// without pacing; for other peers the kernel's choice and its buffer autotuning stay in effect.
void tune_tcp(int fd);
TcpOptions tcp_options(int fd);

// Waits for `events` of poll(2) on fd. kAborted, kTimeout or kIo on failure.
Status wait_ready(int fd, short events, const CancelToken& cancel, Deadline deadline);

Status send_all(const Socket& socket, std::span<const std::byte> data, const CancelToken& cancel, Deadline deadline);
Status receive_all(const Socket& socket, std::span<std::byte> data, const CancelToken& cancel, Deadline deadline);

// For example "connect: Connection refused".
Error io_error(const std::string& what, int error_number);

}  // namespace elastictrain::comm
