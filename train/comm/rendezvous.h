// Purpose: makes all connections that one worker needs for one generation. It connects to some peers and accepts others
// at the same time, in one poll loop, so that no order of arrival can deadlock.
//
// A connector that is refused or closed (its peer may not know the generation yet) retries with a short back-off until
// the deadline. A connection with a wrong generation or rank, or that cannot prove that it holds the generation's token
// (handshake.h), is closed and changes nothing.
//
// Thread: the builder's. Failure: kTimeout names every peer that is missing and why; kInvalid if a peer protects its
// connections at another level; kAborted after cancel().
#pragma once

#include <cstdint>
#include <vector>

#include "train/comm/channel.h"
#include "train/comm/data_listener.h"
#include "train/comm/handshake.h"

namespace elastictrain::comm {

struct PeerSocket {
  Channel channel;
  Purpose purpose = Purpose::kRingLink;
  std::uint32_t peer_rank = 0;
  bool accepted = false;  // the peer connected to us
};

// The connections of one worker. The same (purpose, rank, direction) must not be listed twice.
struct RendezvousPlan {
  struct Outgoing {
    Purpose purpose = Purpose::kRingLink;
    std::uint32_t to_rank = 0;
    protocol::Endpoint endpoint;
    bool same_host = false;  // use the Unix socket if the peer has one
  };
  struct Incoming {
    Purpose purpose = Purpose::kRingLink;
    std::uint32_t from_rank = 0;
  };
  Generation generation = 0;
  Token token{};
  std::uint32_t rank = 0;
  protocol::Encryption encryption = protocol::Encryption::kNone;  // of TCP connections; within a host there is none
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
};

Result<std::vector<PeerSocket>> rendezvous(const RendezvousPlan& plan, DataListener& listener,
                                           const CancelToken& cancel, Deadline deadline);

}  // namespace elastictrain::comm
