#include "train/comm/communicator.h"

namespace elastictrain::comm {

// If both ends sent first, both might wait for buffer space.
Status Communicator::exchange(std::span<const std::byte> sent, std::span<std::byte> received, std::uint32_t peer) {
  const bool begins = rank() < peer;
  if (auto status = begins ? send(sent, peer) : receive(received, peer); !status) return status;
  return begins ? receive(received, peer) : send(sent, peer);
}

void Communicator::limit_operations(std::chrono::milliseconds) {}

Status Communicator::check_peers() {
  return {};
}

Status Communicator::check_self() const {
  return {};
}

}  // namespace elastictrain::comm
