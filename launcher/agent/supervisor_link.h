// Purpose: the agent's connection to its supervisor, and what happens when it breaks: the agent reconnects every 500 ms
// for the orphan grace, and then gives up. A connection that is only silent is kept (a supervisor that was stopped for
// a while continues with it), but a second one is tried at the same time, because the peer may be gone without notice.
//
// Ownership: the agent's service owns it. Thread: the io_context's thread. Errors: on_gone, once, with the reason.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "supervisor/protocol/agent_messages.h"
#include "supervisor/protocol/result.h"
#include "supervisor/transport/frame_connection.h"

namespace elastictrain::launcher {

class SupervisorLink {
 public:
  struct Handlers {
    std::function<void()> on_up;  // connected, at first and again; also when it replaces a silent one
    std::function<void(protocol::AgentDown)> on_message;
    std::function<void(const Error&)> on_lost;  // it will be tried again
    std::function<void(const Error&)> on_gone;  // never reached, or away for longer than the grace
  };

  SupervisorLink(asio::io_context& io, const protocol::AgentBootstrap& bootstrap, Handlers handlers);
  ~SupervisorLink();

  void start();
  bool up() const { return connection_ != nullptr; }
  // Dropped if there is no connection.
  void send(const protocol::AgentUp& message);
  std::size_t queued_bytes() const { return connection_ ? connection_->queued_bytes() : 0; }
  const std::string& local_address() const { return local_address_; }
  // Sends what is queued; no more attempts, no more callbacks.
  void finish();

 private:
  void connect(std::chrono::milliseconds timeout);
  void connected(std::shared_ptr<transport::FrameConnection> connection);
  void attempt_failed(const Error& error);
  void lost(const Error& error);
  void take(const std::string& body);
  void try_again_later();
  void watch_silence();
  void look_at_silence();
  void give_up(const Error& error);
  std::chrono::milliseconds silence() const;

  asio::io_context& io_;
  const protocol::AgentBootstrap& bootstrap_;
  Handlers handlers_;
  std::shared_ptr<transport::FrameConnection> connection_;
  std::string local_address_;
  asio::steady_timer retry_timer_;
  asio::steady_timer silence_timer_;
  std::chrono::steady_clock::time_point last_seen_;
  std::chrono::milliseconds quiet_;  // silence after which a second connection is tried
  std::chrono::milliseconds limit_;  // silence after which the supervisor is given up
  bool connecting_ = false;
  bool was_up_ = false;
  bool finished_ = false;  // no more attempts or callbacks
  std::shared_ptr<char> life_ = std::make_shared<char>();
};

}  // namespace elastictrain::launcher
