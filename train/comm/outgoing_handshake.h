// Purpose: repeated connection attempts to one peer until it acknowledges our handshake.
//
// A state machine driven by the rendezvous loop: call advance() when poll(2) reports the descriptor or at retry_at().
// Thread: the builder's. Failure: only the loop's deadline ends it; last_error() states why it has not succeeded.
#pragma once

#include <cstddef>
#include <string>

#include "train/comm/handshake.h"
#include "train/comm/rendezvous.h"
#include "train/comm/socket.h"

namespace elastictrain::comm {

class OutgoingHandshake {
 public:
  OutgoingHandshake(const RendezvousPlan::Outgoing& target, const Handshake& handshake);

  bool done() const { return state_ == State::kDone; }
  // -1 while it waits for retry_at().
  int fd() const { return socket_.fd(); }
  short events() const;
  Deadline retry_at() const { return retry_at_; }
  void advance(Deadline now);

  PeerSocket take();
  std::string last_error() const;

 private:
  enum class State { kIdle, kConnecting, kAwaitingAck, kDone };

  void start(Deadline now);
  void finish_connect(Deadline now);
  void send_handshake(Deadline now);
  void read_ack(Deadline now);
  void retry(Deadline now, const std::string& why);
  bool uses_unix() const { return target_.same_host && !target_.endpoint.unix_name.empty(); }

  RendezvousPlan::Outgoing target_;
  HandshakeBytes bytes_;
  Socket socket_;
  State state_ = State::kIdle;
  Deadline retry_at_{};
  std::chrono::milliseconds back_off_{1};
  std::size_t attempts_ = 0;
  std::size_t ack_bytes_ = 0;
  HandshakeAckBytes ack_{};
  bool refused_ = false;  // more useful in an error than the latest attempt's state
  std::string last_error_ = "no answer yet";
};

}  // namespace elastictrain::comm
