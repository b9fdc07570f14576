// Purpose: the work of an agent between its bootstrap and its end: performs the supervisor's orders on its workers,
// sends up their messages, output and exits, and never leaves one behind.
//
// Ownership: owns its workers, its directory and its link. Thread: the io_context's thread, which must exist as long as
// the workers (it is their parent). Errors: exit_status() and a line on stderr.
#pragma once

#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/agent/agent.h"
#include "launcher/agent/fork_server.h"
#include "launcher/agent/helper_processes.h"
#include "launcher/agent/notice_probe.h"
#include "launcher/agent/private_directory.h"
#include "launcher/agent/supervisor_link.h"
#include "launcher/agent/warm_workers.h"
#include "launcher/agent/worker.h"
#include "launcher/mpi/mpi_rank.h"

namespace elastictrain::launcher {

class AgentService {
 public:
  // `pool`: set if this agent is a rank of an MPI pool, whose single process MPI accepts once.
  AgentService(asio::io_context& io, protocol::AgentBootstrap bootstrap, PrivateDirectory directory, Guardian guardian,
               std::optional<MpiPlace> pool);
  ~AgentService();

  void start();
  bool finished() const { return finished_; }
  int exit_status() const { return exit_status_; }

 private:
  using Milliseconds = std::chrono::milliseconds;

  // A worker that has exited. Its last messages are repeated after every reconnect: the supervisor may have failed
  // after it received them and before it recorded them.
  struct Ended {
    WorkerRecord record;
    std::deque<protocol::WorkerOutput> output;  // written while the supervisor was away
    protocol::WorkerExited exited;
  };

  void went_up();
  void went_away(const Error& error);
  void is_gone(const Error& error);
  protocol::AgentHello hello() const;
  void resync();
  void send_all(WorkerId worker, const std::vector<protocol::WorkerUp>& messages);
  std::uint64_t next_report() const { return report_sequence_ + 1; }

  void perform(protocol::AgentDown order);
  void on(protocol::SpawnWorker& order);
  void on(const protocol::SignalWorker& order);
  void on(const protocol::StopWorker& order);
  void on(const protocol::ToWorkers& order);
  void on(const protocol::StopAgent& order);
  void on(const protocol::SupervisorHeartbeat& heartbeat);
  void on(const protocol::CheckHost& order);
  void on(const protocol::AskAgent& order);
  void on(const protocol::KeepWarm& order);
  void on(const protocol::EndWarm& order);

  static void say(const std::string& text);

  // agent_service_workers.cc
  Result<WorkerSetup> setup_for(protocol::SpawnWorker& order);
  Status add_replica(WorkerSetup& setup) const;
  void tell_address(const WorkerProcess& worker);
  void begin(WorkerSetup setup, std::optional<ForkedChild> child);
  void start_failed(const protocol::SpawnWorker& order, const Error& error);
  bool has_fork_server(const PythonCommand& command, const WorkerSetup& setup);
  void fork(const std::vector<std::string>& program, WorkerSetup setup);
  void forked(WorkerId worker, Result<ForkedChild> child);
  void cancel_start(WorkerId worker, const std::string& reason);
  void cancel_starts();
  Result<std::vector<std::string>> environment_for(const protocol::SpawnWorker& order, const ReservedPort& ras) const;
  Result<std::vector<std::string>> data_addresses() const;
  WorkerHooks hooks_for(WorkerId worker);
  WorkerProcess* find(WorkerId worker);
  bool takes_time_from_others();

  bool may_read(WorkerId id);
  void on_worker_message(WorkerId worker, protocol::WorkerToAgent message);
  void worker_ended(const protocol::WorkerExited& exited);
  void close_account(WorkerProcess& worker, const protocol::WorkerExited& exited);
  void schedule_output();
  void send_output();
  bool send_next_batch(WorkerProcess& worker);
  void keep_output(WorkerProcess& worker, Ended& ended);

  // agent_service_workers.cc
  Status take_assignment(protocol::SpawnWorker& order);
  bool take_warm_assignment(const protocol::SpawnWorker& order);
  void reassign(std::unique_ptr<WorkerProcess> process, WorkerId worker);
  void parked(WorkerId worker);
  void keep_warm(WorkerId worker);
  void warm_changed();
  WarmLimits warm_limits() const;
  void park(WorkerId worker);
  void spend_rank(const WorkerProcess& worker);
  void parked_ended();
  void dismiss_parked(Milliseconds grace);
  std::vector<std::string> pool_environment() const;

  void tick();
  void send_report();
  void wait_for_signal();
  void got_signal(int number);
  NoticeProbe::Setup probe_setup() const;
  void notice(const std::string& reason);
  void tell_orphans(const std::string& reason);
  void leave(int exit_status);
  void stop(Milliseconds grace, int exit_status);
  void finish_if_empty();
  void kill_leftovers();

  asio::io_context& io_;
  protocol::AgentBootstrap bootstrap_;
  PrivateDirectory directory_;
  std::string host_key_;
  std::string self_path_;
  SupervisorLink link_;
  std::map<WorkerId, std::unique_ptr<WorkerProcess>> workers_;
  std::optional<MpiPlace> pool_;
  std::unique_ptr<WorkerProcess> parked_;     // the rank's process while it is no worker
  std::unique_ptr<ForkServer> fork_server_;   // once a worker could use it
  std::string no_fork_server_;                // why it is of no use, for the output of the next worker
  std::map<WorkerId, WorkerSetup> starting_;  // they wait for it
  bool rank_is_spent_ = false;                // its process has exited, and MPI accepts no new one
  WarmWorkers warm_;
  std::set<WorkerId> keep_;  // their processes stay when they have left
  std::deque<Ended> ended_;
  std::size_t late_output_bytes_ = 0;  // in ended_
  NoticeProbe probe_;
  std::string notice_;  // why this host is going away; empty: it is not
  Guardian guardian_;
  asio::signal_set signals_;
  asio::steady_timer tick_timer_;
  asio::steady_timer output_timer_;
  asio::steady_timer leave_timer_;
  asio::steady_timer parked_timer_;
  bool output_scheduled_ = false;
  bool leaving_ = false;          // workers end by themselves, no new one is started
  bool is_of_group_ = false;      // of hosts over which workers are spread
  bool stopping_ = false;         // they are being ended
  std::size_t lost_workers_ = 0;  // ended while they trained, and not replaced here yet
  bool finished_ = false;
  int exit_status_ = kAgentStopped;
  std::uint64_t report_sequence_ = 0;
};

}  // namespace elastictrain::launcher
