// Purpose: takes connections from the listener and keeps those whose handshake is expected; closes all others.
//
// Connections that have not said who they are yet are bounded in number and time, so that a stranger who connects and
// stays silent costs nothing. Thread: the builder's.
#pragma once

#include <poll.h>

#include <cstddef>
#include <string>
#include <vector>

#include "train/comm/data_listener.h"
#include "train/comm/handshake.h"
#include "train/comm/rendezvous.h"

namespace elastictrain::comm {

class IncomingHandshakes {
 public:
  IncomingHandshakes(const RendezvousPlan& plan, DataListener& listener) : plan_(plan), listener_(listener) {}

  bool done() const { return arrived_.size() == plan_.incoming.size(); }
  void add_to(std::vector<pollfd>& fds) const;
  // Accepts and reads whatever is there; cheap when nothing is.
  void advance(Deadline now);
  std::vector<PeerSocket> take() { return std::move(arrived_); }
  std::string missing() const;

 private:
  struct Pending {
    Socket socket;
    bool is_unix = false;
    Deadline since;
    std::size_t received = 0;
    HandshakeBytes bytes{};
  };

  void accept_from(std::size_t listener_index, Deadline now);
  // True when the connection is settled one way or the other.
  bool read_from(Pending& pending);
  bool expected(const Handshake& handshake, bool is_unix) const;
  void keep(Pending& pending, const Handshake& handshake);

  const RendezvousPlan& plan_;
  DataListener& listener_;
  std::vector<Pending> pending_;
  std::vector<PeerSocket> arrived_;
  std::size_t refused_ = 0;
};

}  // namespace elastictrain::comm
