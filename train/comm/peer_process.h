// Purpose: processes at the other ends of Unix sockets: their credentials by the kernel, and detection of their end.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "train/comm/socket.h"

// The process at the other end of a Unix socket, as reported by the kernel.

namespace elastictrain::comm {

bool peer_has_own_uid(int unix_fd);
// 0 if unknown.
pid_t peer_pid(int unix_fd);

// Detects that a process on this host is gone: its Unix connection hangs up or its pid ends.
//
// It uses one epoll descriptor for all peers, so that a waiting thread can check at constant cost and poll(2) can
// include it. Ownership: closes the connections it was given. Thread: the communicator's; hang_up() from any.

class PeerWatch {
 public:
  Status open();
  // Watches local rank `peer`. The connection may be missing; the pid may be 0 or our own (a rank in this process).
  Status add(std::size_t peer, Socket connection, pid_t pid);

  int fd() const { return epoll_.fd(); }
  // A peer that is gone, if there is one. Each is reported until forget() removes it.
  std::optional<std::size_t> gone() const;
  void forget(std::size_t peer);

  // Wakes the peers that watch our end of the connections.
  void hang_up() noexcept;

 private:
  struct Entry {
    std::size_t peer = 0;
    Socket connection;
    Socket pid;
  };
  Status watch(int fd, std::size_t peer, unsigned events);

  Socket epoll_;
  std::vector<Entry> entries_;
};

}  // namespace elastictrain::comm
