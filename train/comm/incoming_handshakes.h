// Purpose: accepts connections from the listener, keeps those with an expected handshake and closes all others.
//
// Connections without a complete handshake are bounded in number and time, so that a foreign client that connects and
// sends nothing costs little. Thread: the builder's.
#pragma once

#include <poll.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "train/comm/data_listener.h"
#include "train/comm/handshake.h"
#include "train/comm/rendezvous.h"

namespace elastictrain::comm {

class IncomingHandshakes {
 public:
  IncomingHandshakes(const RendezvousPlan& plan, DataListener& listener) : plan_(plan), listener_(listener) {}

  // An error once a peer has authenticated itself that protects its connections at another level.
  const Status& agreement() const { return agreement_; }
  bool done() const { return arrived_.size() == plan_.incoming.size(); }
  void add_to(std::vector<pollfd>& fds) const;
  // Accepts and reads what is available; cheap if nothing is.
  void advance(Deadline now);
  std::vector<PeerSocket> take() { return std::move(arrived_); }
  std::string missing() const;

 private:
  struct Pending {
    Socket socket;
    bool is_unix = false;
    Deadline since;
    std::size_t received = 0;  // of what is awaited: the hello, then the proof
    HandshakeBytes hello{};
    std::optional<Handshake> challenged = {};  // expected, but not authenticated yet
    RecordSecrets secrets = {};
    Mac expected_proof{};
    Mac proof{};
  };

  void accept_from(std::size_t listener_index, Deadline now);
  // True when the connection is either accepted or refused.
  bool read_from(Pending& pending);
  bool challenge(Pending& pending);
  protocol::Encryption level_of(const Pending& pending) const;
  void settle(Pending& pending);
  bool expected(const Handshake& handshake, bool is_unix) const;
  void keep(Pending& pending, const Handshake& handshake);

  const RendezvousPlan& plan_;
  DataListener& listener_;
  std::vector<Pending> pending_;
  std::vector<PeerSocket> arrived_;
  std::size_t refused_ = 0;
  Status agreement_;
};

}  // namespace elastictrain::comm
