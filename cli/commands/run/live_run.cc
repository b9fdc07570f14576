#include "cli/commands/run/live_run.h"

#include <asio/post.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <utility>
#include <variant>

#include "cli/commands/exit_code.h"
#include "cli/commands/run/checkpoint_directory.h"
#include "cli/commands/run/launchers.h"
#include "cli/commands/run/run_signals.h"
#include "cli/output/protection.h"
#include "cli/output/whole_file.h"
#include "cli/report/write.h"
#include "launcher/hostfile.h"
#include "launcher/process/process_attributes.h"
#include "supervisor/control/control_protocol.h"
#include "supervisor/core/pure/message_text.h"
#include "supervisor/host_groups.h"
#include "supervisor/protocol/display_text.h"
#include "supervisor/run_directory.h"

namespace elastictrain::cli {

BeginWatch::BeginWatch(asio::io_context& io, std::uint64_t workers, std::chrono::milliseconds plain_after,
                       std::function<void()> begun)
    : timer_(io), workers_(workers), plain_after_(plain_after), begun_(std::move(begun)) {}

void BeginWatch::take(const core::Record& record) {
  if (record.is<core::record::Hello>()) uses_library_ = true;
  if (record.is<core::record::Spawned>() && ++running_ == workers_) all_run();
  const bool trains_on = record.is<core::record::AllBack>();
  if (trains_on || record.is<core::record::GenerationComplete>()) report();
}

void BeginWatch::all_run() {
  timer_.expires_after(plain_after_);
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error && !uses_library_) report();
  });
}

void BeginWatch::report() {
  if (auto begun = std::exchange(begun_, nullptr)) begun();
}

namespace {

// A program that has not begun to use the library by then probably never does.
constexpr std::chrono::seconds kPlainAfter{5};

// For the commands that offered hosts to hear how the run has ended.
constexpr std::chrono::seconds kFarewell{5};

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
  options.per_replica = config.workers.per_replica;
  options.hosts_per_replica = static_cast<std::uint32_t>(config.workers.hosts_per_replica);
  options.protection = describe_protection(config.network);
  if (!plan.all_local) options.gpu_protection = gpus_leave_in_clear(config.network);
  options.forward_signals = forwarded_signals(config.signals, plan.usr1_drains);
  options.usr1_drains = plan.usr1_drains;
  options.notice_probe = config.preemption.probe;
  options.notice_probe_ms = config.preemption.probe_interval_ms;
  options.keep_warm_ms = plan.settings.keeps_warm ? config.hosts.keep_warm_s * 1000 : 0;
  options.keep_warm_percent = config.hosts.keep_warm_memory_percent;
  options.preload = plan.preload;
  options.preload_timeout_ms = config.workers.preload_timeout_ms;
  return options;
}

// Values of variables may be secrets, and nobody continues a run that has finished.
RunConfig without_values(RunConfig config) {
  config.environment.set.clear();
  return config;
}

}  // namespace

int status_of_start(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalid:
      return kExitConfig;
    case ErrorCode::kNoInput:
      return kExitNoInput;
    case ErrorCode::kUnavailable:
    case ErrorCode::kRefused:
    case ErrorCode::kTimeout:
    case ErrorCode::kPeerLost:
    case ErrorCode::kMismatch:
      return kExitUnavailable;
    case ErrorCode::kIo:
      return kExitCannotCreate;
    case ErrorCode::kDenied:
      return kExitNoPermission;
    default:
      return kExitInternal;
  }
}

LiveRun::LiveRun(std::string command, const RunChoice& choice, const RunPlan& plan, Meeting meeting)
    : command_(std::move(command)),
      choice_(choice),
      config_(choice.config),
      plan_(plan),
      meeting_(std::move(meeting)),
      io_(*meeting_.io),
      start_(choice.start) {}

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
  if (const Status named = names_hosts_in_file(config_, plan_); start_ == RunStart::kFresh && !named.ok()) {
    return report(named.error(), status_of_start(named.error()));
  }
  held_signals_.emplace();
  auto directory = run_directory_of(plan_.settings.run_name);
  if (!directory.ok()) return report(directory.error(), status_of_start(directory.error()));
  directory_ = *directory;
  added_hosts_file_ = directory_ + "/added-hosts";
  if (const Status recalled = recall_added_hosts(); !recalled.ok()) return report(recalled.error(), kExitConfig);
  if (const Status placed = look_at_checkpoints(); !placed.ok())
    return report(placed.error(), status_of_start(placed.error()));
  auto output = RunOutput::open(config_.log, plan_.settings.max_workers);
  if (!output.ok()) return report(output.error(), status_of_start(output.error()));
  output_ = std::move(*output);
  if (const Status claimed = claim_checkpoints(); !claimed.ok())
    return report(claimed.error(), status_of_start(claimed.error()));
  const auto on_end = [this](const launcher::LaunchEnded& ended) {
    if (supervisor_ != nullptr) supervisor_->launch_ended(ended);
  };
  auto launcher = make_launcher(
      io_, config_, plan_, on_end, [this](const std::string& host) { return job_of(host); }, meeting_.rendezvous.get());
  if (!launcher.ok()) return report(launcher.error(), kExitConfig);
  const auto hosts = make_hosts();
  if (const Status joined = join_cluster(); !joined.ok()) return report(joined.error(), kExitUnavailable);
  int status = kExitInternal;
  for (bool suspended = true; suspended;) {
    if (io_.stopped()) io_.restart();
    supervisor_ = std::make_unique<Supervisor>(io_, options(), **launcher, *hosts);
    status = supervise();
    suspended = supervisor_->suspended();
    supervisor_.reset();
    start_ = RunStart::kStartAgain;
  }
  if (meeting_.rendezvous != nullptr) meeting_.rendezvous->finish(status, kFarewell);
  leave_cluster(status);
  if (claim_) claim_->end(status == kExitSuccess);
  return status;
}

// Before anything starts. Directories of other machines are looked at by their workers.
Status LiveRun::look_at_checkpoints() const {
  const CheckpointPlace place = checkpoint_place_of(config_.checkpoint);
  if (place.directory.empty() || !plan_.all_local || start_ == RunStart::kTakeOver) return {};
  if (start_ == RunStart::kStartAgain) {
    const auto saved = saved_step(directory_ + "/" + control::kJournalName);
    if (Status there = require_checkpoints(place, saved, plan_.settings.run_name); !there.ok()) return there;
  }
  return try_checkpoint_directory(place);
}

// Of a place that this machine sees, too.
Status LiveRun::claim_checkpoints() {
  std::error_code ignored;
  CheckpointPlace place = checkpoint_place_of(config_.checkpoint);
  if (place.directory.empty()) return {};
  if (!place.is_remote()) {
    place.directory = std::filesystem::absolute(place.directory, ignored).lexically_normal().string();
    if (!plan_.all_local && !std::filesystem::is_directory(place.directory, ignored)) return {};
  }
  claim_ = std::make_unique<CheckpointClaim>(
      io_,
      ClaimRequest{.place = place,
                   .run = plan_.settings.run_name,
                   .run_directory = directory_,
                   .adopts = config_.checkpoint.adopt,
                   .continues = start_ == RunStart::kStartAgain},
      [this](const std::string& text) { output_->tell(core::Tell::Level::kWarning, text); });
  if (Status taken = claim_->take(); !taken.ok()) {
    if (taken.error().code == ErrorCode::kRefused || plan_.all_local) return taken;
    // Its workers may reach what this machine does not.
    output_->tell(core::Tell::Level::kWarning,
                  "whose " + place.directory + " is was not looked at: " + taken.error().message);
    claim_.reset();
    return {};
  }
  claim_->keep();
  return {};
}

// A fresh run needs its cluster; one that goes on finds it when it is there.
Status LiveRun::join_cluster() {
  if (config_.cluster.empty()) return {};
  ClusterLinkInputs inputs;
  inputs.directory = directory_;
  inputs.start = start_;
  inputs.lease_seen = [this]() -> std::uint64_t {
    if (supervisor_ == nullptr) return 0;
    const auto lease = supervisor_->figures().view.lease;
    return lease ? lease->version : 0;
  };
  inputs.say = [this](bool warning, const std::string& text) {
    output_->tell(warning ? core::Tell::Level::kWarning : core::Tell::Level::kInfo, text);
    if (link_ != nullptr && supervisor_ != nullptr) keep_job(directory_, link_->job());
  };
  auto link = make_cluster_link(io_, config_, plan_, std::move(inputs));
  if (!link.ok()) return link.error();
  link_ = std::move(*link);
  return start_ == RunStart::kFresh ? link_->join_now() : Status();
}

// Its slots are another run's from then on, so processes that nobody could reach must be past their end.
void LiveRun::leave_cluster(int status) {
  if (link_ == nullptr) return;
  cluster::Holds& holds = link_->holds();
  const auto now = [] {
    return std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::steady_clock::now());
  };
  holds.pass(now());
  while (const auto next = holds.next()) {
    std::cerr << "elastictrain " << command_ << ": waiting for processes on a host that cannot be reached to be over, "
              << protocol::duration_text(std::chrono::ceil<std::chrono::seconds>(*next - now())) << " at most\n";
    if (io_.stopped()) io_.restart();
    while (now() < *next) io_.run_one_until(*next);
    holds.pass(now());
  }
  link_->close(static_cast<std::uint8_t>(status));
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
  if (!write_whole_file(added_hosts_file_, launcher::hostfile_text(hosts))) return;
  output_->say("elastictrain: cannot write " + added_hosts_file_ +
               "; a supervisor that resumes the run will not know the added hosts");
}

std::string LiveRun::job_of(const std::string& host) const {
  if (elastic_ != nullptr) return elastic_->job_of(host);
  return link_ != nullptr ? link_->job_of(host) : std::string();
}

std::unique_ptr<launcher::HostSource> LiveRun::make_hosts() {
  if (meeting_.rendezvous != nullptr) {
    meeting_.rendezvous->expect(added_hosts_);
    meeting_.rendezvous->on_change([this](const std::vector<launcher::Host>& offered) { keep_added_hosts(offered); });
  }
  auto hosts = meeting_.rendezvous != nullptr ? meeting_.rendezvous->hosts() : make_host_source(io_, config_, plan_);
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
  options.on_change = [this](const launcher::HostsChange& change) { keep_added_hosts(change.known); };
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
    const bool usable = !agent.gone && !agent.leaving();
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
  if (!config_.metrics.listen.empty() || !config_.metrics.file.empty()) {
    metrics_ = std::make_unique<metrics::RunMetrics>(plan_.settings.run_name, ELASTICTRAIN_VERSION);
  }
  options.run_directory = directory_;
  options.start = start_;
  options.cluster = link_.get();
  options.recorded_config =
      encode_recorded({config_, choice_.inputs.current_directory, choice_.inputs.environment, choice_.typed});
  options.ended_config =
      encode_recorded({without_values(config_), choice_.inputs.current_directory, {}, choice_.typed});
  options.on_output = [this](const OutputLine& line) { output_->show_line(line); };
  options.on_tell = [this](core::Tell::Level level, const std::string& text) { output_->tell(level, text); };
  options.on_figures = [this](const RunFigures& figures) {
    summary_.add_figures(figures);
    if (metrics_) metrics_->add_figures(figures);
    output_->show_figures(figures);
  };
  options.on_journal = [this](const core::Record& record) {
    summary_.add_record(record);
    if (metrics_) metrics_->add_record(record);
    if (watcher_) watcher_(record);
    // Not those that an earlier supervisor wrote, which open() reads back.
    if (begin_watch_ && opened_) begin_watch_->take(record);
    if (const auto* began = record.as<core::record::GenerationComplete>()) size_ = began->world_size;
    if (hooks_ && opened_) hooks_->take(record);
    const auto* unneeded = record.as<core::record::HostUnneeded>();
    if (unneeded != nullptr && meeting_.rendezvous != nullptr && opened_) {
      for (const std::string& host : hosts_of_group(unneeded->host)) {
        meeting_.rendezvous->let_go(host, unneeded->reason);
      }
    }
  };
  return options;
}

int LiveRun::supervise() {
  if (const Status opened = supervisor_->open(); !opened.ok())
    return report(opened.error(), status_of_start(opened.error()));
  opened_ = true;
  output_->keep_in(directory_, start_ == RunStart::kFresh);
  // A file left by an earlier run of this name.
  std::error_code ignored;
  if (start_ != RunStart::kTakeOver) std::filesystem::remove(added_hosts_file_, ignored);
  if (link_ != nullptr) {
    if (!link_->connected()) link_->start();
    keep_job(directory_, link_->job());
    if (begin_watch_) begin_watch_->queued();
  }
  RunSignals signals(io_, *supervisor_, *output_, config_.signals, plan_.settings.grace);
  held_signals_.reset();
  const std::string& name = plan_.settings.run_name;
  output_->say("elastictrain: run " + name + " " + beginning() + "; its state: elastictrain status " + name);
  if (const std::string left = left_in_clear(config_.network); !plan_.all_local && !left.empty()) {
    output_->say("elastictrain: " + left);
  }
  auto exporter = export_metrics();
  if (config_.on.any()) {
    const std::uint64_t size = start_ == RunStart::kTakeOver ? size_ : 0;
    hooks_ = std::make_unique<Hooks>(io_, config_.on, name, directory_, size, [this](const std::string& text) {
      output_->tell(core::Tell::Level::kWarning, text);
    });
  }
  const int status = supervisor_->run();
  exporter.reset();
  signals.stop();
  if (supervisor_->suspended()) {
    output_->say("elastictrain: run " + name + " has left its slots, and waits for others with its checkpoint");
    return status;
  }
  finish(status);
  return status;
}

void LiveRun::finish(int status) {
  const std::string& name = plan_.settings.run_name;
  if (begin_watch_) begin_watch_->cancel();
  if (elastic_ != nullptr) elastic_->give_all_back();
  output_->say(summary_.render(status));
  if (hooks_) hooks_->end(status, summary_.end_reason());
  write_report();
  const bool goes_on = (status == kExitPreempted || status == kExitStateLost) && supervisor_->has_checkpoint();
  if (goes_on || supervisor_->can_continue())
    output_->say("elastictrain: continue with: elastictrain run --resume " + name);
  output_->ended(status);
  output_->close();
}

std::string LiveRun::beginning() const {
  if (link_ != nullptr && start_ == RunStart::kFresh) return "asks cluster " + config_.cluster + " for slots";
  switch (start_) {
    case RunStart::kTakeOver:
      return "is taken over after the loss of its supervisor";
    case RunStart::kStartAgain:
      return "continues from its newest checkpoint";
    case RunStart::kFresh:
      return "starts with " + core::counted(plan_.settings.start_workers, "worker");
  }
  panic("a run without a start");
}

std::unique_ptr<metrics::Exporter> LiveRun::export_metrics() {
  if (!metrics_) return nullptr;
  return std::make_unique<metrics::Exporter>(
      io_, config_.metrics, *metrics_, [this](const std::string& text) { output_->say("elastictrain: " + text); },
      [this](const std::string& text) { output_->tell(core::Tell::Level::kWarning, text); });
}

// A run whose report cannot be written has trained all the same.
void LiveRun::write_report() {
  const std::string& path = config_.report.on_end;
  if (path.empty()) return;
  const auto page = run_report::page_of(directory_, choice_.typed);
  const Status written = page.ok() ? run_report::write_page(*page, path) : Status(page.error());
  output_->say(written.ok() ? "elastictrain: report: " + path : "elastictrain: warning: " + written.error().message);
}

}  // namespace elastictrain::cli
