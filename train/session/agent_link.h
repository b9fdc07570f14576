// Purpose: the worker's conversation with its agent over one Unix socket, on a control thread of its own, so that a
// worker that computes for minutes still sends heartbeats and hears of plans at once.
//
// Ownership: the control plane. Thread: send() and close() from any thread; the handlers run on the control thread.
// Failure: a lost agent is not an error. What waits to be sent is kept (bounded) while the link tries to come back;
// after the grace on_orphaned() is called once, and trying goes on.
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

#include "supervisor/protocol/frame_reader.h"
#include "supervisor/protocol/message.h"
#include "supervisor/protocol/result.h"
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
  std::function<std::vector<protocol::WorkerUp>()> on_heartbeat;  // what to send now
  std::function<void()> on_orphaned;
};

class AgentLink {
 public:
  static Result<std::unique_ptr<AgentLink>> connect(LinkOptions options, LinkHandlers handlers);
  ~AgentLink();

  // From here on the handlers are called.
  void start();
  pid_t agent() const { return agent_; }  // 0: not seen from here

  void send(const protocol::WorkerUp& message);
  // What `make` gives, behind all that a heartbeat had taken before it was called: what both take from one place leaves
  // in its order.
  void send_in_turn(const std::function<std::vector<protocol::WorkerUp>()>& make);
  // `last` is this worker's last word: no heartbeat follows it, also none that was being put together meanwhile.
  void fall_silent(const protocol::WorkerUp& last);
  // Another worker speaks from here on.
  void introduce(const protocol::WorkerHello& hello);
  // Waits until everything is sent, the agent is gone or the time is up; then ends the control thread.
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

  std::mutex heartbeat_mutex_;  // before mutex_
  bool silent_ = false;         // with heartbeat_mutex_

  std::mutex mutex_;  // also of options_.hello
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
