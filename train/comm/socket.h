// Purpose: sockets of the data plane: addresses, ownership and options, blocking transfers with a deadline and a
// token that cancels them, and descriptors that no forked child keeps.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "supervisor/protocol/result.h"
#include "train/comm/communicator.h"

// A forked child of a worker gets nothing of it. Descriptors that are kept from children are closed in the
// child as soon as it exists, so that peers see the end of the worker even if a child outlives it.
//
// Ownership: of the process. Thread: any. Failure: a descriptor above kMaxGuarded stays open in the child.

namespace elastictrain::comm {

inline constexpr int kMaxGuarded = 1 << 16;

void keep_from_children(int fd);
void let_children_have(int fd);

// Lets another thread stop a build or a transfer that is blocked in poll(2).
//
// Ownership: outlives the operations that watch it. Thread: any. Failure: none; a token without a descriptor still
// works through cancelled(), but does not wake a blocked thread.

class CancelToken {
 public:
  CancelToken();
  ~CancelToken();
  CancelToken(const CancelToken&) = delete;
  CancelToken& operator=(const CancelToken&) = delete;

  void cancel() noexcept;
  bool cancelled() const noexcept { return cancelled_.load(std::memory_order_acquire); }
  // Becomes readable at cancel() and stays readable.
  int fd() const { return fd_; }

 private:
  std::atomic<bool> cancelled_{false};
  int fd_ = -1;
};

// Numeric IPv4, IPv6 (with %scope) and abstract Unix addresses for bind and connect. No name lookups.

class SocketAddress {
 public:
  static Result<SocketAddress> tcp(const std::string& address, std::uint16_t port);
  static Result<SocketAddress> abstract_unix(const std::string& name);

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t size() const { return size_; }
  int family() const { return storage_.ss_family; }

 private:
  sockaddr_storage storage_{};
  socklen_t size_ = 0;
};

// The port that a socket is bound to, or 0 if unknown.
std::uint16_t bound_port(int fd);
// Of both ends of a connected TCP socket, for messages: "10.0.0.2 port 4000 to 10.0.0.1 port 5000".
std::string ends_of(int fd);

// Sockets of the data plane: ownership of a descriptor, TCP options, and blocking transfers with a deadline
// for code that is not time-critical (state transfer, build).
//
// Ownership: Socket closes its descriptor. All descriptors are close-on-exec and non-blocking, and a forked child does
// not have them. Thread: one at a time. Failure: kPeerLost if the peer disconnected, kTimeout at the
// deadline, kAborted if the token was cancelled.

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
