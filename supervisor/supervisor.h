// Purpose: one live run: feeds events into the state machine and performs its actions. Owns the run's part of the Asio
// loop: agents' connections, the launcher's results, timers, the journal, the control socket, host polling.
//
// Thread: the io_context's thread, also for all callbacks. run() returns when the run has ended and nothing is left
// behind.
#pragma once

#include <asio/io_context.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "launcher/host_source.h"
#include "launcher/launcher.h"
#include "supervisor/control/run_status.h"
#include "supervisor/core/pure/action.h"
#include "supervisor/core/pure/event.h"
#include "supervisor/core/pure/settings.h"
#include "supervisor/output_line.h"
#include "supervisor/policy/runner_settings.h"
#include "supervisor/protocol/check.h"
#include "supervisor/protocol/result.h"
#include "supervisor/run_record.h"
#include "supervisor/worker_program.h"

namespace elastictrain {

namespace cluster {
class RunLink;
}

struct SupervisorOptions {
  core::RunSettings settings;
  RunStart start = RunStart::kFresh;
  std::string ended_config;     // takes its place when the run has finished, with what nobody needs any more left out
  std::string recorded_config;  // kept in the run's directory for a supervisor that takes the run over; not read here
  WorkerProgram program;
  std::string run_directory;                     // made with mode 0700
  std::vector<std::string> listen_addresses;     // numeric; empty: loopback only
  std::vector<std::string> advertise_addresses;  // the addresses to which agents connect
  std::uint16_t listen_port = 0;
  std::uint64_t heartbeat_ms = 250;
  std::uint64_t worker_dead_ms = 3'000;
  std::uint64_t orphan_grace_ms = 60'000;
  std::uint64_t agent_connect_timeout_ms = 10'000;
  std::uint64_t time_limit_ms = 0;      // 0: none
  std::string interface;                // data plane; empty: by route
  std::uint64_t per_replica = 1;        // processes of each worker, for `status`
  std::uint32_t hosts_per_replica = 1;  // on which each worker lies
  std::string protection;               // of the traffic between hosts, for `status`
  std::string gpu_protection;           // the same for the traffic of GPUs; said once a host has some
  std::string notice_probe;             // shell command of every agent; status 0: its host goes away; empty: none
  std::uint64_t notice_probe_ms = 5'000;
  std::uint64_t keep_warm_ms = 0;  // for processes of workers that a shrink has let go; 0: they end
  std::uint64_t keep_warm_percent = 25;
  std::vector<std::string> preload;  // Python modules that each host imports once, for all of its workers
  std::uint64_t preload_timeout_ms = 60'000;
  policy::RunnerSettings policy;
  std::vector<int> forward_signals;  // passed on to the workers
  bool usr1_drains = false;
  cluster::RunLink* cluster = nullptr;  // that leases the run its slots, in place of the host source; it outlives this
  std::function<void(const OutputLine&)> on_output;
  std::function<void(core::Tell::Level, const std::string&)> on_tell;
  std::function<void(const RunFigures&)> on_figures;  // at most ten times a second, and at every change
  std::function<void(const core::Record&)> on_journal;
  // Ends the process with kViolationStatus, without destructors. For tests, which stay.
  std::function<void()> end_process = leave_process;
};

class Supervisor {
 public:
  Supervisor(asio::io_context& io, SupervisorOptions options, launcher::Launcher& launcher,
             launcher::HostSource& hosts);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Opens the run directory, listens, starts. An error here means that nothing was started.
  Status open();
  // Runs the loop until the end of the run; returns the exit status as documented for users.
  int run();

  // The target of the launcher's sink: the launcher is created before the supervisor that it reports to.
  void launch_ended(const launcher::LaunchEnded& ended);
  // Leaves at the next step boundary.
  void request_stop(core::StopCause cause);
  // TERM to the workers at once, KILL after the grace.
  void stop_now();
  // KILL to the workers at once: for a user who does not want to wait for the grace.
  void kill_now();
  // Passes the signal on to every worker if it is one of `forward_signals`; with `usr1_drains`, USR1 also requests a
  // stop.
  void forward_signal(int signal);

  RunFigures figures() const;
  // After run(): the run left with a checkpoint because its cluster took its slots, and is to go on when it has some.
  bool suspended() const;

  // A checkpoint of this run was written, or read at its start.
  bool has_checkpoint() const;
  // Of a run that has ended: its program had not reached its end, and there is a checkpoint to continue from.
  bool can_continue() const;
  // The port to which agents connect; valid after open().
  std::uint16_t listen_port() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace elastictrain
