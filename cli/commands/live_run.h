// Purpose: one run in this process: connects launcher, host source, supervisor, signals and output, and runs to the
// end.
//
// Ownership: borrows choice and plan. Thread: the caller of run(), which returns when the run has ended and has left
// nothing behind. Errors: one line on standard error, and the exit status.
#pragma once

#include <asio/io_context.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cli/commands/begin_watch.h"
#include "cli/commands/resume.h"
#include "cli/commands/run_plan.h"
#include "cli/output/run_output.h"
#include "cli/output/summary.h"
#include "launcher/elastic_hosts.h"
#include "supervisor/supervisor.h"

namespace elastictrain::cli {

// The exit status of a run that cannot start.
int status_of_start(const Error& error);

class LiveRun {
 public:
  // `command` is the subcommand's name, for error messages.
  LiveRun(std::string command, const RunChoice& choice, const RunPlan& plan);

  // `watcher` is called with each journal record on the run's thread, and may call stop().
  void watch(std::function<void(const core::Record&)> watcher);
  // `begun` is called once, on the run's thread, when its first generation trains or its first programs run.
  void when_begun(std::function<void()> begun);
  int run();
  // Stops at the next step boundary, as when the user asks for it.
  void stop();

 private:
  SupervisorOptions options();
  int supervise();
  std::unique_ptr<launcher::HostSource> make_hosts();
  Status recall_added_hosts();
  void keep_added_hosts(const std::vector<launcher::Host>& hosts);
  std::optional<launcher::HostDemand> demand() const;
  int report(const Error& error, int status) const;
  std::string beginning() const;

  const std::string command_;
  const RunChoice& choice_;
  const RunConfig& config_;
  const RunPlan& plan_;
  asio::io_context io_{1};
  std::unique_ptr<RunOutput> output_;
  Summary summary_;
  std::function<void(const core::Record&)> watcher_;
  std::unique_ptr<BeginWatch> begin_watch_;
  bool opened_ = false;
  std::string directory_;  // the run's
  std::string added_hosts_file_;
  std::vector<launcher::Host> added_hosts_;    // by the supervisor that this one succeeds
  launcher::ElasticHosts* elastic_ = nullptr;  // the host source, where it can grow
  std::unique_ptr<Supervisor> supervisor_;
};

}  // namespace elastictrain::cli
