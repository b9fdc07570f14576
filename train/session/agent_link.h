// Purpose: the worker's connection to its agent over one Unix socket. It has a control thread of its own, so that a
// worker that computes for minutes still sends heartbeats and receives plans at once.
//
// Ownership: the control plane. Thread: send() and close() from any thread; the handlers run on the control thread.
// Failure: losing the agent is not an error. Pending messages are kept (bounded) while the link reconnects. After the
// grace period it calls on_orphaned() once and keeps trying.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "supervisor/protocol/codec.h"
#include "supervisor/protocol/result.h"
#include "supervisor/protocol/worker_messages.h"
#include "train/comm/socket.h"

namespace elastictrain::session {

struct LinkOptions {
  std::string socket_path;
  protocol::WorkerHello hello;
  std::chrono::milliseconds heartbeat{250};
  std::chrono::milliseconds orphan_grace{60'000};
};

struct LinkHandlers {
  std::function<void(protocol::WorkerDown)> on_message;
  std::function<std::vector<protocol::WorkerToAgent>()> on_heartbeat;  // what to send now
  std::function<void()> on_orphaned;
};

class AgentLink {
 public:
  static Result<std::unique_ptr<AgentLink>> connect(LinkOptions options, LinkHandlers handlers);
  ~AgentLink();

  // The handlers are called from this point on.
  void start();
  pid_t agent() const { return agent_; }  // 0: not visible in this PID namespace

  void send(const protocol::WorkerToAgent& message);
  // Sends the messages that `make` returns, after everything that an earlier heartbeat has taken: messages that both
  // take from one queue leave in the order of the queue.
  void send_in_turn(const std::function<std::vector<protocol::WorkerToAgent>()>& make);
  // `last` is this worker's last message: no heartbeat follows it, not even one that is being assembled at the same
  // time.
  void fall_silent(const protocol::WorkerToAgent& last);
  // Later messages are those of another worker.
  void introduce(const protocol::WorkerHello& hello);
  // Waits until everything is sent, the agent is gone or the time is up. Then ends the control thread.
  void close(std::chrono::milliseconds flush_time);

 private:
  using Clock = std::chrono::steady_clock;

  AgentLink(LinkOptions options, LinkHandlers handlers);
  void run();
  bool finished_closing();
  void tend_connection(Clock::time_point now);
  void heartbeat_if_due(Clock::time_point now);
  void wait_for_work();
  void write_some();
  void read_some();
  void disconnect();
  void use(comm::Socket socket);
  void wake();

  LinkOptions options_;
  LinkHandlers handlers_;
  pid_t agent_ = 0;
  comm::Socket wake_;

  std::mutex heartbeat_mutex_;  // lock before mutex_
  bool silent_ = false;         // guarded by heartbeat_mutex_

  std::mutex mutex_;  // also guards options_.hello
  std::deque<std::string> outbox_;
  std::size_t outbox_bytes_ = 0;
  bool closing_ = false;
  Clock::time_point close_deadline_{};

  // Control thread only.
  comm::Socket socket_;
  protocol::FrameReader reader_;
  std::size_t front_sent_ = 0;
  Clock::time_point next_heartbeat_{};
  Clock::time_point next_try_{};
  Clock::time_point lost_at_{};
  bool orphaned_ = false;

  std::thread thread_;
};

}  // namespace elastictrain::session
