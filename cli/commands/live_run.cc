#include "cli/commands/live_run.h"

#include <asio/post.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <utility>

#include "cli/commands/exit_code.h"
#include "cli/commands/run_parts.h"
#include "cli/commands/run_signals.h"
#include "cli/output/protection.h"
#include "launcher/hostfile.h"
#include "launcher/process/core_files.h"
#include "supervisor/run_directory.h"

namespace elastictrain::cli {
namespace {

// A program that has not begun to use the library by then probably never does.
constexpr std::chrono::seconds kPlainAfter{5};

SupervisorOptions supervisor_options(const RunConfig& config, const RunPlan& plan) {
  SupervisorOptions options;
  options.settings = plan.settings;
  options.policy = plan.policy;
  options.program = plan.program;
  options.listen_addresses = plan.listen_addresses;
  options.advertise_addresses = plan.advertise_addresses;
  options.listen_port = static_cast<std::uint16_t>(config.network.port);
  options.heartbeat_ms = config.timeouts.heartbeat_ms;
  options.worker_dead_ms = config.timeouts.worker_dead_ms;
  options.orphan_grace_ms = config.timeouts.orphan_grace_ms;
  options.agent_connect_timeout_ms = config.launcher.connect_timeout_ms;
  options.time_limit_ms = config.timeouts.time_limit_s * 1000;
  options.interface = config.network.interface;
  options.protection = describe_protection(config.network);
  options.forward_signals = forwarded_signals(config.signals, plan.usr1_drains);
  options.usr1_drains = plan.usr1_drains;
  options.notice_probe = config.preemption.probe;
  options.notice_probe_ms = config.preemption.probe_interval_ms;
  return options;
}

}  // namespace

int status_of_start(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalid:
      return kExitConfig;
    case ErrorCode::kUnavailable:
    case ErrorCode::kRefused:
    case ErrorCode::kTimeout:
      return kExitUnavailable;
    case ErrorCode::kIo:
      return kExitCannotCreate;
    default:
      return kExitInternal;
  }
}

LiveRun::LiveRun(std::string command, const RunChoice& choice, const RunPlan& plan)
    : command_(std::move(command)), choice_(choice), config_(choice.config), plan_(plan) {}

void LiveRun::watch(std::function<void(const core::Record&)> watcher) {
  watcher_ = std::move(watcher);
}

void LiveRun::when_begun(std::function<void()> begun) {
  begin_watch_ = std::make_unique<BeginWatch>(io_, plan_.settings.start_workers, kPlainAfter, std::move(begun));
}

int LiveRun::report(const Error& error, int status) const {
  std::cerr << "elastictrain " << command_ << ": " << error.message << "\n";
  return status;
}

int LiveRun::run() {
  launcher::keep_memory_private();
  auto directory = run_directory_of(plan_.settings.run_name);
  if (!directory.ok()) return report(directory.error(), status_of_start(directory.error()));
  directory_ = *directory;
  added_hosts_file_ = directory_ + "/added-hosts";
  if (const Status recalled = recall_added_hosts(); !recalled.ok()) return report(recalled.error(), kExitConfig);
  auto output = RunOutput::open(config_.log, plan_.settings.max_workers);
  if (!output.ok()) return report(output.error(), status_of_start(output.error()));
  output_ = std::move(*output);
  const auto on_end = [this](const launcher::LaunchEnded& ended) {
    if (supervisor_ != nullptr) supervisor_->launch_ended(ended);
  };
  auto launcher = make_launcher(io_, config_, plan_, on_end, [this](const std::string& host) {
    return elastic_ == nullptr ? std::string() : elastic_->job_of(host);
  });
  if (!launcher.ok()) return report(launcher.error(), kExitConfig);
  const auto hosts = make_hosts();
  supervisor_ = std::make_unique<Supervisor>(io_, options(), **launcher, *hosts);
  const int status = supervise();
  supervisor_.reset();
  return status;
}

Status LiveRun::recall_added_hosts() {
  if (choice_.start != RunStart::kTakeOver) return {};
  std::ifstream file(added_hosts_file_);
  std::ostringstream text;
  text << file.rdbuf();
  auto hosts = launcher::parse_hostfile(text.str(), added_hosts_file_);
  if (!hosts.ok()) return hosts.error();
  added_hosts_ = std::move(*hosts);
  return {};
}

// Written as a whole and renamed: if the supervisor is killed while it writes, the old file stays.
void LiveRun::keep_added_hosts(const std::vector<launcher::Host>& hosts) {
  const std::string temporary = added_hosts_file_ + ".new";
  std::ofstream file(temporary);
  file << launcher::hostfile_text(hosts);
  file.close();
  std::error_code failed;
  if (file) std::filesystem::rename(temporary, added_hosts_file_, failed);
  if (file && !failed) return;
  output_->say("elastictrain: cannot write " + added_hosts_file_ +
               "; a supervisor that resumes the run will not know the added hosts");
}

std::unique_ptr<launcher::HostSource> LiveRun::make_hosts() {
  auto hosts = make_host_source(io_, config_, plan_);
  if (config_.hosts.expand.empty()) return hosts;
  launcher::ElasticHostsOptions options;
  options.expand = config_.hosts.expand;
  options.shrink = config_.hosts.shrink;
  options.job = plan_.settings.run_name;
  options.timeout = std::chrono::milliseconds(config_.hosts.expand_timeout_ms);
  options.settings.can_expand = true;
  options.settings.can_shrink = !config_.hosts.shrink.empty();
  options.settings.shrink_after = std::chrono::milliseconds(config_.hosts.shrink_after_ms);
  options.added = added_hosts_;
  options.on_change = [this](const std::vector<launcher::Host>& added) { keep_added_hosts(added); };
  auto elastic = std::make_unique<launcher::ElasticHosts>(
      io_, std::move(hosts), std::move(options), [this] { return demand(); },
      [this](const std::string& text) { output_->say("elastictrain: " + text); });
  elastic_ = elastic.get();
  return elastic;
}

// No demand before the first hosts are known, and none once the run is stopping.
std::optional<launcher::HostDemand> LiveRun::demand() const {
  if (supervisor_ == nullptr) return std::nullopt;
  const core::RunView view = supervisor_->figures().view;
  const bool over = view.phase == core::RunPhase::kStopping || view.phase == core::RunPhase::kEnded;
  if (over || view.agents.empty()) return std::nullopt;
  launcher::HostDemand demand;
  demand.needed_slots = view.target_size + plan_.settings.spares;
  for (const core::AgentView& agent : view.agents) {
    const bool usable = agent.phase != core::AgentPhase::kDown && agent.phase != core::AgentPhase::kDraining;
    demand.hosts.push_back({agent.host, usable ? agent.slots : 0, agent.workers});
  }
  return demand;
}

// Posted, because the caller may be inside a callback of the supervisor.
void LiveRun::stop() {
  asio::post(io_, [this] {
    if (supervisor_ != nullptr) supervisor_->request_stop(core::StopCause::kUser);
  });
}

SupervisorOptions LiveRun::options() {
  SupervisorOptions options = supervisor_options(config_, plan_);
  options.run_directory = directory_;
  options.start = choice_.start;
  options.recorded_config = encode_recorded({config_, choice_.inputs.current_directory, choice_.inputs.environment});
  options.on_output = [this](const OutputLine& line) { output_->show_line(line); };
  options.on_tell = [this](core::Tell::Level level, const std::string& text) { output_->tell(level, text); };
  options.on_figures = [this](const RunFigures& figures) {
    summary_.add_figures(figures);
    output_->show_figures(figures);
  };
  options.on_journal = [this](const core::Record& record) {
    summary_.add_record(record);
    if (watcher_) watcher_(record);
    // Not those that an earlier supervisor wrote, which open() reads back.
    if (begin_watch_ && opened_) begin_watch_->take(record);
  };
  return options;
}

int LiveRun::supervise() {
  if (const Status opened = supervisor_->open(); !opened.ok())
    return report(opened.error(), status_of_start(opened.error()));
  opened_ = true;
  output_->keep_in(directory_, choice_.start == RunStart::kFresh);
  // A file left by an earlier run of this name.
  std::error_code ignored;
  if (choice_.start != RunStart::kTakeOver) std::filesystem::remove(added_hosts_file_, ignored);
  RunSignals signals(io_, *supervisor_, *output_, config_.signals, plan_.settings.grace);
  const std::string& name = plan_.settings.run_name;
  output_->say("elastictrain: run " + name + " " + beginning() + "; its state: elastictrain status " + name);
  if (const std::string left = left_in_clear(config_.network); !plan_.all_local && !left.empty()) {
    output_->say("elastictrain: " + left);
  }
  const int status = supervisor_->run();
  signals.stop();
  if (begin_watch_) begin_watch_->cancel();
  if (elastic_ != nullptr) elastic_->give_all_back();
  output_->say(summary_.render(status));
  if (status == kExitPreempted && !config_.checkpoint.directory.empty())
    output_->say("elastictrain: continue with: elastictrain run --resume " + name);
  output_->ended(status);
  output_->close();
  return status;
}

std::string LiveRun::beginning() const {
  switch (choice_.start) {
    case RunStart::kTakeOver:
      return "is taken over after the loss of its supervisor";
    case RunStart::kStartAgain:
      return "continues from its newest checkpoint";
    case RunStart::kFresh:
      return "starts with " + std::to_string(plan_.settings.start_workers) + " workers";
  }
  panic("a run without a start");
}

}  // namespace elastictrain::cli
