// Purpose: a run in this process from its start to its end, and the moment at which its training has begun.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cli/commands/run/checkpoint_directory.h"
#include "cli/commands/run/cluster_link.h"
#include "cli/commands/run/endpoint.h"
#include "cli/commands/run/hooks.h"
#include "cli/commands/run/resume.h"
#include "cli/commands/run/run_plan.h"
#include "cli/commands/run/run_signals.h"
#include "cli/metrics/exporter.h"
#include "cli/metrics/run_metrics.h"
#include "cli/output/run_output.h"
#include "cli/output/summary.h"
#include "launcher/elastic_hosts.h"
#include "supervisor/core/pure/records.h"
#include "supervisor/supervisor.h"

// Finds in a run's records when it has begun: its first generation trains, its programs run and do not use the
// library, or all its hosts are back after it was taken over.
// Thread: the Asio loop's. Ownership: borrows the loop.

namespace elastictrain::cli {

class BeginWatch {
 public:
  // `begun` is called once. A program that has said nothing to its agent `plain_after` its start does not use the
  // library.
  BeginWatch(asio::io_context& io, std::uint64_t workers, std::chrono::milliseconds plain_after,
             std::function<void()> begun);

  void take(const core::Record& record);
  // It counts as begun already: it waits for its turn.
  void queued() { report(); }
  void cancel() { timer_.cancel(); }

 private:
  void all_run();
  void report();

  asio::steady_timer timer_;
  const std::uint64_t workers_;
  const std::chrono::milliseconds plain_after_;
  std::function<void()> begun_;
  std::uint64_t running_ = 0;
  bool uses_library_ = false;
};

// One run in this process: connects launcher, host source, supervisor, signals and output, and runs to the
// end.
//
// Ownership: borrows choice and plan. Thread: the caller of run(), which returns when the run has ended and has left
// nothing behind. Errors: one line on standard error, and the exit status.

// The exit status of a run that cannot start.
int status_of_start(const Error& error);

class LiveRun {
 public:
  // `command` is the subcommand's name, for error messages. `meeting`: the held endpoint, if the run has one.
  LiveRun(std::string command, const RunChoice& choice, const RunPlan& plan, Meeting meeting = {});

  // `watcher` is called with each journal record on the run's thread, and may call stop().
  void watch(std::function<void(const core::Record&)> watcher);
  // `begun` is called once, on the run's thread, when its first generation trains or its first programs run.
  void when_begun(std::function<void()> begun);
  int run();
  // Stops at the next step boundary, as when the user asks for it.
  void stop();

 private:
  SupervisorOptions options();
  Status look_at_checkpoints() const;
  Status claim_checkpoints();
  Status join_cluster();
  int supervise();
  void leave_cluster(int status);
  void finish(int status);
  // The batch system's job that brought a host; empty: none.
  std::string job_of(const std::string& host) const;
  std::unique_ptr<launcher::HostSource> make_hosts();
  Status recall_added_hosts();
  void keep_added_hosts(const std::vector<launcher::Host>& hosts);
  std::optional<launcher::HostDemand> demand() const;
  void write_report();
  std::unique_ptr<metrics::Exporter> export_metrics();
  int report(const Error& error, int status) const;
  std::string beginning() const;

  const std::string command_;
  const RunChoice& choice_;
  const RunConfig& config_;
  const RunPlan& plan_;
  Meeting meeting_;
  asio::io_context& io_;
  std::unique_ptr<RunOutput> output_;
  Summary summary_;
  std::unique_ptr<metrics::RunMetrics> metrics_;  // where somebody asked for them
  std::function<void(const core::Record&)> watcher_;
  std::unique_ptr<BeginWatch> begin_watch_;
  std::unique_ptr<Hooks> hooks_;  // where there are any
  bool opened_ = false;
  std::uint64_t size_ = 0;  // of the newest generation
  std::string directory_;   // the run's
  std::string added_hosts_file_;
  std::vector<launcher::Host> added_hosts_;    // by the supervisor that this one succeeds
  launcher::ElasticHosts* elastic_ = nullptr;  // the host source, where it can grow
  std::unique_ptr<CheckpointClaim> claim_;     // where this machine sees the checkpoints
  std::unique_ptr<cluster::RunLink> link_;     // of a run of a cluster
  RunStart start_;                             // of the supervisor that runs now
  std::optional<HeldSignals> held_signals_;    // until RunSignals takes them
  std::unique_ptr<Supervisor> supervisor_;
};

}  // namespace elastictrain::cli
