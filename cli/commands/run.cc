// `elastictrain run`: reads the configuration, wires launcher, host source, supervisor, signals and output, and runs.
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <memory>

#include "cli/commands/command.h"
#include "cli/commands/dry_run.h"
#include "cli/commands/resume.h"
#include "cli/commands/run_flags.h"
#include "cli/commands/run_parts.h"
#include "cli/commands/run_plan.h"
#include "cli/commands/run_signals.h"
#include "cli/exit_code.h"
#include "cli/output/run_output.h"
#include "cli/output/summary.h"
#include "supervisor/run_directory.h"

namespace elastictrain::cli {
namespace {

constexpr const char* kExamples = R"(
Examples:
  elastictrain run -n 4 -- ./train --epochs 5              four workers here
  elastictrain run -n 2:4 -H hostA:2,hostB:2 -- ./train    two to four workers on two hosts, by ssh
  elastictrain run configs/quickstart.toml                 everything from a file
  elastictrain run job.toml --set batch.per_worker=64      … but one value
  elastictrain run job.toml --dry-run                      show what would be started
  elastictrain run --resume NAME                           take over a run whose supervisor was lost

Precedence: flag, then environment (ELASTICTRAIN_BATCH_PER_WORKER=64), then file, then default.
)";

int report(const Error& error, int status) {
  std::cerr << "elastictrain run: " << error.message << "\n";
  return status;
}

int status_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalid:
      return kExitConfig;
    case ErrorCode::kUnavailable:
    case ErrorCode::kRefused:
    case ErrorCode::kTimeout:
      return kExitUnavailable;
    default:
      return kExitInternal;
  }
}

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
  options.forward_signals = forwarded_signals(config.signals);
  options.usr1_drains = config.signals.usr1 == Usr1Choice::kDrain;
  options.notice_probe = config.preemption.probe;
  options.notice_probe_ms = config.preemption.probe_interval_ms;
  return options;
}

class LiveRun {
 public:
  LiveRun(const RunChoice& choice, const RunPlan& plan) : choice_(choice), config_(choice.config), plan_(plan) {}

  int run() {
    auto directory = run_directory_of(plan_.settings.run_name);
    if (!directory.ok()) return report(directory.error(), status_of(directory.error()));
    auto output = RunOutput::open(config_.log, plan_.settings.max_workers);
    if (!output.ok()) return report(output.error(), kExitConfig);
    output_ = std::move(*output);
    auto launcher = make_launcher(io_, config_, plan_, [this](const launcher::LaunchEnded& ended) {
      if (supervisor_ != nullptr) supervisor_->launch_ended(ended);
    });
    if (!launcher.ok()) return report(launcher.error(), kExitConfig);
    const auto hosts = make_host_source(io_, config_, plan_);
    supervisor_ = std::make_unique<Supervisor>(io_, options(std::move(*directory)), **launcher, *hosts);
    const int status = supervise();
    supervisor_.reset();
    return status;
  }

 private:
  SupervisorOptions options(std::string directory) {
    SupervisorOptions options = supervisor_options(config_, plan_);
    options.run_directory = std::move(directory);
    options.start = choice_.start;
    options.recorded_config = encode_recorded({config_, choice_.inputs.current_directory, choice_.inputs.environment});
    options.on_output = [this](const OutputLine& line) { output_->show_line(line); };
    options.on_tell = [this](core::Tell::Level level, const std::string& text) { output_->tell(level, text); };
    options.on_figures = [this](const RunFigures& figures) {
      summary_.add_figures(figures);
      output_->show_figures(figures);
    };
    options.on_journal = [this](const std::string& event, const Summary::Fields& fields) {
      summary_.add_event(event, fields);
    };
    return options;
  }

  int supervise() {
    if (const Status opened = supervisor_->open(); !opened.ok())
      return report(opened.error(), status_of(opened.error()));
    RunSignals signals(io_, *supervisor_, *output_, config_.signals);
    const std::string& name = plan_.settings.run_name;
    output_->say("elastictrain: run " + name + " " + beginning() + "; beside it: elastictrain status " + name);
    const int status = supervisor_->run();
    signals.stop();
    output_->say(summary_.render(status));
    output_->close();
    return status;
  }

  std::string beginning() const {
    switch (choice_.start) {
      case RunStart::kTakeOver:
        return "is taken over from the supervisor that it lost";
      case RunStart::kStartAgain:
        return "goes on from its newest checkpoint";
      case RunStart::kFresh:
        return "starts with " + std::to_string(plan_.settings.start_workers) + " workers";
    }
    panic("a run without a start");
  }

  const RunChoice& choice_;
  const RunConfig& config_;
  const RunPlan& plan_;
  asio::io_context io_{1};
  std::unique_ptr<RunOutput> output_;
  Summary summary_;
  std::unique_ptr<Supervisor> supervisor_;
};

int dry_run(const RunConfig& config, const RunPlan& plan) {
  asio::io_context io;
  const auto launcher = make_launcher(io, config, plan, [](const launcher::LaunchEnded&) {});
  if (!launcher.ok()) return report(launcher.error(), kExitConfig);
  std::cout << render_dry_run(config, plan, **launcher);
  return kExitSuccess;
}

int run_command(const RunFlags& flags, const std::vector<std::string>& program) {
  const auto chosen = choose_run(flags, program);
  if (const auto* failed = std::get_if<ChoiceFailed>(&chosen)) {
    std::cerr << failed->text << "\n";
    return failed->status;
  }
  const RunChoice& choice = std::get<RunChoice>(chosen);
  const auto plan = make_plan(choice.config, choice.inputs);
  if (!plan.ok()) return report(plan.error(), status_of(plan.error()));
  return flags.dry_run ? dry_run(choice.config, *plan) : LiveRun(choice, *plan).run();
}

}  // namespace

void add_run(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("run", "train: start workers, supervise them, change their number");
  command->group(kGroupTrain)->footer(kExamples);
  const auto flags = std::make_shared<RunFlags>();
  add_run_flags(*command, flags);
  const auto resume = [flags](const std::string& name) {
    flags->resume = true;
    flags->resume_name = name == kAnyRun ? "" : name;
  };
  command->add_option_function<std::string>("--resume", resume)
      ->description("take over a run whose supervisor is gone, or go on from its newest checkpoint; no config needed")
      ->type_name("[NAME]")
      ->group("Job");
  command->add_flag("--dry-run", flags->dry_run, "show hosts, ranks, commands and environment; start nothing")
      ->group("Job");
  command->final_callback([&invocation, flags] {
    invocation.action = [&invocation, flags] { return run_command(*flags, invocation.program); };
  });
}

}  // namespace elastictrain::cli
