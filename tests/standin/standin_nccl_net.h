// Purpose: sockets of the stand-in for NCCL: listening and connecting on loopback, and moving several buffers at once.
// Ownership: the caller closes. Thread: any. Failure: false, or -1.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace standin {

// A listening socket on 127.0.0.1; its port is put into `port`.
int listen_on_loopback(std::uint16_t& port);
int connect_to_loopback(std::uint16_t port);
// Blocking until `stop`; false also when the peer goes away.
bool accept_until(int listener, int& connection, const std::atomic<bool>& stop);

struct Move {
  int socket = -1;
  char* data = nullptr;
  std::size_t bytes = 0;
  bool outgoing = false;
};

enum class MoveEnd { kDone, kStopped, kLost };
// All of them at once; those of one socket and direction in their order.
MoveEnd move_all(std::vector<Move> moves, const std::atomic<bool>& stop);

}  // namespace standin
