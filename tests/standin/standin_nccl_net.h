// Purpose: sockets of the stand-in for NCCL: listening and connecting on loopback, and moving several buffers at once.
// Ownership: the caller closes. Thread: any. Errors: returned as false, or -1.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace standin {

// Opens a listening socket on 127.0.0.1 and stores its port in `port`.
int listen_on_loopback(std::uint16_t& port);
int connect_to_loopback(std::uint16_t port);
// Blocks until `stop`. Returns false also if the peer closes.
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
