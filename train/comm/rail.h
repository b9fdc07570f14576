// Purpose: transfers bytes between hosts for the ranks of one rail (topology.h). Shared memory does the rest.
//
// Ownership, threads and failure: the communicator's; shut_down() from any thread. After any error the communicator
// shuts the rail down, so that the error reaches every member.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "train/comm/blocks.h"
#include "train/comm/communicator.h"

namespace elastictrain::comm {

class Rail {
 public:
  virtual ~Rail() = default;

  // Lets a wait also notice events on this host.
  virtual void watch(int fd, std::function<Status()> on_ready) = 0;

  virtual Status all_reduce(const ReduceVector& vector, ReduceStats* stats) = 0;
  // Block p belongs to position p and is copied to the same block of all others.
  virtual Status share(std::span<const Pieces> blocks) = 0;

  // Point to point; `peer` is a rank of the generation. kInvalid if it cannot be reached.
  virtual bool reaches(std::uint32_t peer) const = 0;
  virtual Status send(std::uint32_t peer, std::span<const std::byte> data) = 0;
  virtual Status receive(std::uint32_t peer, std::span<std::byte> data) = 0;
  // Both directions at once if each has a link of its own.
  virtual Status exchange(std::uint32_t peer, std::span<const std::byte> sent, std::span<std::byte> received) = 0;

  // Does not wait. kPeerLost if a peer is known to be gone.
  virtual Status check_peers() const = 0;
  virtual void shut_down() noexcept = 0;
  virtual Traffic traffic() const = 0;
  // May cost one system call per peer.
  virtual std::vector<PeerFigures> peers() const = 0;
};

}  // namespace elastictrain::comm
