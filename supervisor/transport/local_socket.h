// Purpose: Unix sockets of runs and clusters: their addresses, who is at the other end, and a client that sends a line
// and receives one. Blocking, with a deadline; no event loop.
//
// Ownership: each object owns its descriptor. Thread: any one at a time. Errors: values; their texts say what is wrong
// with the other end and do not name it.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "supervisor/protocol/result.h"

namespace elastictrain::transport {

// A descriptor that is closed with its owner; below 0: none.
class OwnedDescriptor {
 public:
  explicit OwnedDescriptor(int opened = -1) : value_(opened) {}
  ~OwnedDescriptor();
  OwnedDescriptor(OwnedDescriptor&& other) noexcept;
  OwnedDescriptor& operator=(OwnedDescriptor&& other) noexcept;
  int value() const { return value_; }

 private:
  int value_;
};

// The address of a socket, however long its path: one that does not fit into sockaddr_un is reached through its
// directory and /proc/self/fd. Valid as long as this object exists, which holds the directory open. kUnavailable: there
// is no such directory.
class LocalAddress {
 public:
  static Result<LocalAddress> of(const std::string& path);

  const sockaddr* generic() const { return reinterpret_cast<const sockaddr*>(&address_); }
  socklen_t length() const { return sizeof address_; }
  std::string usable_path() const { return address_.sun_path; }

 private:
  LocalAddress(OwnedDescriptor directory, const std::string& usable_path);
  OwnedDescriptor directory_;
  sockaddr_un address_{};
};

struct Peer {
  std::uint32_t uid = 0;
  std::int64_t pid = 0;
};
// As the kernel says.
std::optional<Peer> peer_of(int socket);
// Of this process's user, or root.
bool is_own(const Peer& peer);

// Connects at once or not at all: kUnavailable where nobody listens, kTimeout where the queue of a stopped or busy
// listener is full. The socket does not block.
Result<OwnedDescriptor> connect_local(const std::string& path);
// Also one whose queue is full.
bool has_listener(const std::string& path);

// Sends the line, without its line end, and returns the line that comes back. kTimeout: not until the deadline.
// kPeerLost: the other end closed the connection.
Result<std::string> exchange_lines(int socket, const std::string& line, std::chrono::steady_clock::time_point deadline);

}  // namespace elastictrain::transport
