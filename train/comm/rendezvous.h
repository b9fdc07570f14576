// Purpose: all connections of one worker for one generation, made in one poll loop: outgoing attempts and incoming
// connections with their handshakes.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train/comm/channel.h"
#include "train/comm/data_listener.h"
#include "train/comm/handshake.h"
#include "train/comm/socket.h"

// Makes all connections that one worker needs for one generation. It connects to some peers and accepts others
// at the same time, in one poll loop, so that no order of arrival can deadlock.
//
// A connector that is refused or closed (its peer may not know the generation yet) retries with a short back-off until
// the deadline. A connection with a wrong generation or rank, or that cannot prove that it holds the generation's token
// (handshake.h), is closed and changes nothing.
//
// Thread: the builder's. Failure: kTimeout names every peer that is missing and why; kInvalid if a peer protects its
// connections at another level; kAborted after cancel().

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

// Repeated connection attempts to one peer until it acknowledges our handshake.
//
// A state machine driven by the rendezvous loop: call advance() when poll(2) reports the descriptor or at retry_at().
// Thread: the builder's. Failure: only the loop's deadline ends it; last_error() states why it has not succeeded.

class OutgoingHandshake {
 public:
  OutgoingHandshake(const RendezvousPlan& plan, const RendezvousPlan::Outgoing& target);

  // An error once the peer has authenticated itself and protects its connections at another level.
  const Status& agreement() const { return agreement_; }
  bool done() const { return state_ == State::kDone; }
  // -1 while it waits for retry_at().
  int fd() const { return socket_.fd(); }
  short events() const;
  Deadline retry_at() const { return retry_at_; }
  void advance(Deadline now);

  PeerSocket take();
  std::string last_error() const;

 private:
  enum class State { kIdle, kConnecting, kAwaitingChallenge, kAwaitingAck, kDone };

  void start(Deadline now);
  void finish_connect(Deadline now);
  void send_handshake(Deadline now);
  void read_challenge(Deadline now);
  void read_ack(Deadline now);
  // True when all of `bytes` has been read. A connection that is lost meanwhile is tried again.
  bool read(std::span<std::byte> bytes, Deadline now);
  bool send(std::span<const std::byte> bytes, Deadline now);
  void retry(Deadline now, const std::string& why);
  bool uses_unix() const { return target_.same_host && !target_.endpoint.unix_name.empty(); }

  RendezvousPlan::Outgoing target_;
  Token token_;
  Handshake handshake_;
  Status agreement_;
  RecordSecrets secrets_;
  HandshakeBytes hello_{};
  Socket socket_;
  State state_ = State::kIdle;
  Deadline retry_at_{};
  std::chrono::milliseconds back_off_{1};
  std::size_t attempts_ = 0;
  std::size_t read_bytes_ = 0;  // of what is awaited
  ChallengeBytes challenge_{};
  HandshakeAckBytes ack_{};
  bool refused_ = false;  // more useful in an error than the latest attempt's state
  std::string last_error_ = "no answer yet";
};

// Accepts connections from the listener, keeps those with an expected handshake and closes all others.
//
// Connections without a complete handshake are bounded in number and time, so that a foreign client that connects and
// sends nothing costs little. Thread: the builder's.

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
