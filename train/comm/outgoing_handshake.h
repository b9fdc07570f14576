// Purpose: repeated connection attempts to one peer until it acknowledges our handshake.
//
// A state machine driven by the rendezvous loop: call advance() when poll(2) reports the descriptor or at retry_at().
// Thread: the builder's. Failure: only the loop's deadline ends it; last_error() states why it has not succeeded.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "train/comm/handshake.h"
#include "train/comm/rendezvous.h"
#include "train/comm/socket.h"

namespace elastictrain::comm {

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

}  // namespace elastictrain::comm
