// Purpose: an agent that speaks the real protocol over real TLS, with workers that have no processes: they are ready at
// once, prepare, swap, leave and end on request, and report progress. Deliberate errors are set in FakeBehaviour.
// Ownership: shared with its pending operations. Thread: the io_context's.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "supervisor/protocol/agent_messages.h"
#include "supervisor/transport/frame_connection.h"

namespace elastictrain::testing {

struct FakeBehaviour {
  bool wrong_key = false;
  std::uint32_t protocol_version = 0;  // 0: the right one
  std::string binary_version;          // empty: the right one
  bool is_silent = false;              // connects and stays silent
  bool plain_workers = false;          // workers that never send hello, and end by themselves at once
  int plain_exit_code = 0;
  bool reconnects = false;                                       // permanently, when its connection breaks
  std::function<void(transport::FrameConnection&)> after_hello;  // malformed frames, floods
};

class FakeAgent : public std::enable_shared_from_this<FakeAgent> {
 public:
  FakeAgent(asio::io_context& io, protocol::AgentBootstrap bootstrap, FakeBehaviour behaviour,
            std::function<void(std::string)> ended);
  void start();
  void vanish();  // as when its host loses power: no message, no further connection

  const std::map<WorkerId, protocol::SpawnWorker>& spawned() const { return spawned_; }
  void say(WorkerId worker, protocol::WorkerUp message);
  void send(const protocol::AgentUp& message);

 private:
  void connected(std::shared_ptr<transport::FrameConnection> connection);
  void connection_ended();
  void repeat_worker_messages();
  void say_ready(WorkerId worker);
  void received(const std::string& body);
  void on(const protocol::SpawnWorker& order);
  void on(const protocol::SignalWorker& order);
  void on(const protocol::StopWorker& order);
  void on(const protocol::ToWorkers& order);
  void on(const protocol::StopAgent& order);
  void on(const protocol::SupervisorHeartbeat&) {}
  void on(const protocol::CheckHost&) {}
  void on(const protocol::AskAgent&) {}
  void on(const protocol::KeepWarm&) {}
  void on(const protocol::EndWarm&) {}
  void reported(WorkerId worker, const protocol::WorkerDown& message);
  void prepare(const protocol::GenerationPlan& plan);
  void commit(WorkerId worker, Generation generation);
  void worker_ends(WorkerId worker, int exit_code, int signal);
  void report_later();
  void report();

  asio::io_context& io_;
  protocol::AgentBootstrap bootstrap_;
  FakeBehaviour behaviour_;
  std::function<void(std::string)> ended_;
  std::shared_ptr<transport::FrameConnection> connection_;
  asio::steady_timer timer_;
  asio::steady_timer retry_;
  std::map<WorkerId, protocol::SpawnWorker> spawned_;
  std::map<WorkerId, protocol::WorkerHeartbeat> workers_;  // alive
  std::set<WorkerId> planned_;                             // members of the plan that was prepared last
  Step step_ = 0;
  std::uint64_t sequence_ = 0;
  bool was_connected_ = false;
  bool gone_ = false;
};

}  // namespace elastictrain::testing
