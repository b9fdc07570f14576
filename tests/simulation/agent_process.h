// Purpose: a simulated agent: starts workers on its host, relays their messages through a real WorkerRecord, reports,
// reconnects and resends the actual state, and stops its workers on request or when it has been orphaned for too long.
//
// Ownership: the world. Thread: one. It mirrors launcher/agent/agent_service.cc without sockets and processes.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "launcher/agent/worker_record.h"
#include "supervisor/protocol/agent_messages.h"
#include "tests/simulation/network.h"

namespace elastictrain::simulation {

class World;

class AgentProcess {
 public:
  AgentProcess(World& world, AgentId id, Host& host);
  ~AgentProcess();

  AgentId id() const { return id_; }
  Host& host() { return host_; }
  bool stopped() const { return paused_; }
  bool connected() const { return connection_ != nullptr; }

  void begin();
  void kill();    // and its guardian ends the workers
  void vanish();  // together with its machine
  void pause();
  void resume();
  bool paused() const { return paused_; }
  const Connection* connection() const { return connection_; }
  const std::vector<protocol::WarmProcess>& warm() const { return warm_; }
  void break_connection();
  void notice();  // its probe reports that the host is going away

  void on_worker_message(WorkerId worker, protocol::WorkerToAgent message);
  void worker_exited(WorkerId worker, int exit_code, int signal);
  // Another process is in the slot of this worker.
  bool shares_slot(WorkerId worker) const;

 private:
  void deliver(std::function<void()> work);
  void connect(Millis timeout);
  void connected_to_supervisor(Connection& connection);
  void lost();
  void attempt_failed();
  void gone();
  void tick();
  void send(protocol::AgentUp message);
  void resync();
  void send_report();
  void take(const protocol::AgentDown& message);
  void on(const protocol::SpawnWorker& order);
  void on(const protocol::StopWorker& order);
  void on(const protocol::ToWorkers& order);
  void on(const protocol::StopAgent& order);
  void on(const protocol::AskAgent& order);
  void answer(const protocol::AskAgent& order, Micros latest, std::string line);
  void on(const protocol::KeepWarm& order);
  void on(const protocol::EndWarm& order);
  void keep_warm(WorkerId worker);
  void end_warm(WorkerId was, Micros after);
  void warm_changed();
  bool take_warm(std::uint32_t slot);
  void on(const protocol::SignalWorker&) {}
  void on(const protocol::SupervisorHeartbeat& heartbeat);
  void on(const protocol::CheckHost&) {}
  void stop_worker(WorkerId worker, Millis grace);
  void stop(Millis grace);
  void end_if_empty();
  void end();

  World& world_;
  const AgentId id_;
  Host& host_;
  Connection* connection_ = nullptr;
  std::set<WorkerId> workers_;                          // alive ones
  std::map<WorkerId, launcher::WorkerRecord> records_;  // also of those that have ended
  std::vector<protocol::WorkerExited> exits_;
  std::map<WorkerId, std::uint32_t> slots_;
  std::set<WorkerId> keep_;
  std::vector<protocol::WarmProcess> warm_;
  Instant last_seen_;
  bool was_up_ = false;
  bool stopping_ = false;
  bool orphaned_ = false;
  bool paused_ = false;
  std::deque<std::function<void()>> backlog_;
  std::uint64_t reports_ = 0;
  std::shared_ptr<char> life_ = std::make_shared<char>();
};

}  // namespace elastictrain::simulation
