// `elastictrain run`: reads the configuration, then starts the run or shows what it would start.
#include <algorithm>
#include <asio/io_context.hpp>
#include <iostream>
#include <memory>
#include <optional>
#include <variant>

#include "cli/commands/command.h"
#include "cli/commands/detach.h"
#include "cli/commands/dry_run.h"
#include "cli/commands/endpoint.h"
#include "cli/commands/exit_code.h"
#include "cli/commands/live_run.h"
#include "cli/commands/resume.h"
#include "cli/commands/run_flags.h"
#include "cli/commands/run_parts.h"
#include "cli/commands/run_plan.h"
#include "cli/commands/torch_check.h"

namespace elastictrain::cli {
namespace {

constexpr const char* kExamples = R"(
Examples:
  elastictrain run -n 4 -- ./train --epochs 5              four workers on this machine
  elastictrain run -n 2:4 -H hostA:2,hostB:2 -- ./train    two to four workers on two hosts, by ssh
  elastictrain run configs/quickstart.toml                 all settings from a file
  elastictrain run job.toml --set batch.per_worker=64      override one value
  elastictrain run job.toml --dry-run                      show what would be started
  elastictrain run job.toml --detach                       return when it trains; see also logs, attach
  elastictrain run --resume NAME                           take over a run that has lost its supervisor

Precedence: flag, then environment (ELASTICTRAIN_BATCH_PER_WORKER=64), then file, then default.
)";

int report(const Error& error, int status) {
  std::cerr << "elastictrain run: " << error.message << "\n";
  return status;
}

int dry_run(const RunConfig& config, const RunPlan& plan) {
  asio::io_context io;
  const auto launcher = make_launcher(io, config, plan, [](const launcher::LaunchEnded&) {});
  if (!launcher.ok()) return report(launcher.error(), kExitConfig);
  std::cout << render_dry_run(config, plan, **launcher);
  return kExitSuccess;
}

using MetOrNot = std::variant<std::monostate, Meeting, int>;

// A configuration with a mistake is reported later, with everything else.
Result<MetOrNot> meet_if_asked(const Loaded& loaded) {
  const auto* found = std::get_if<LoadedConfig>(&loaded);
  if (found == nullptr || found->config.hosts.endpoint.empty()) return MetOrNot();
  auto met = meet(found->config);
  if (!met.ok()) return met.error();
  if (const int* status = std::get_if<int>(&*met)) return MetOrNot(*status);
  return MetOrNot(std::move(std::get<Meeting>(*met)));
}

int run_command(const RunFlags& flags, const std::vector<std::string>& program, Detachment* detachment) {
  std::optional<Meeting> meeting;
  std::optional<Loaded> loaded;
  if (!flags.resume && !flags.dry_run) {
    loaded = load_from_flags(flags, program, process_environment());
    auto met = meet_if_asked(*loaded);
    if (!met.ok()) return report(met.error(), status_of_start(met.error()));
    if (const int* status = std::get_if<int>(&*met)) return *status;
    if (auto* held = std::get_if<Meeting>(&*met)) meeting = std::move(*held);
  }
  const auto chosen = choose_run(flags, program, std::move(loaded));
  if (const auto* failed = std::get_if<ChoiceFailed>(&chosen)) {
    std::cerr << failed->text << "\n";
    return failed->status;
  }
  const RunChoice& choice = std::get<RunChoice>(chosen);
  if (flags.torch) {
    const Status usable = check_torch_package(choice.config.command);
    if (!usable.ok()) return report(usable.error(), kExitConfig);
  }
  const auto plan = make_plan(choice.config, choice.inputs);
  if (!plan.ok()) return report(plan.error(), status_of_start(plan.error()));
  if (flags.dry_run) {
    if (const Status named = names_hosts_in_file(choice.config, *plan); !named.ok())
      return report(named.error(), status_of_start(named.error()));
    return dry_run(choice.config, *plan);
  }
  if (!meeting && !choice.config.hosts.endpoint.empty()) {
    auto held = hold_endpoint(choice.config);
    if (!held.ok()) return report(held.error(), status_of_start(held.error()));
    meeting = std::move(*held);
  }
  LiveRun live("run", choice, *plan, meeting ? std::move(*meeting) : Meeting());
  if (detachment != nullptr) live.when_begun([&, detachment] { detachment->begun(plan->settings.run_name); });
  return live.run();
}

constexpr std::string_view kVariablesKey = "environment.set=";

// "environment.set=NAME=value" behind its second sign, other words behind their first.
std::string without_value(const std::string& word, std::size_t from) {
  const std::size_t sign = word.find('=', from);
  return sign == std::string::npos ? word : word.substr(0, sign) + "=...";
}

// As typed, but for the values of variables, which may be secrets.
std::vector<std::string> typed_line(const Invocation& invocation) {
  std::vector<std::string> line = {"elastictrain", invocation.instead.empty() ? "run" : "torchrun"};
  const std::size_t ours = invocation.line.size() - std::min(invocation.line.size(), invocation.program.size());
  for (std::size_t i = 0; i < invocation.line.size(); ++i) {
    std::string word = invocation.line[i];
    const bool is_variable = i < ours && (word.starts_with("-x") || (i > 0 && invocation.line[i - 1] == "-x"));
    const std::size_t key = word.find(kVariablesKey);
    if (is_variable) word = without_value(word, 0);
    if (i < ours && key != std::string::npos) word = without_value(word, key + kVariablesKey.size());
    line.push_back(std::move(word));
  }
  return line;
}

int run_or_detach(const RunFlags& flags, const std::vector<std::string>& program) {
  if (!flags.detach || flags.dry_run) return run_command(flags, program, nullptr);
  return run_detached([&](Detachment& detachment) { return run_command(flags, program, &detachment); });
}

}  // namespace

Command make_run(Invocation& invocation) {
  const auto flags = std::make_shared<RunFlags>();
  const auto resume = [flags](const std::string& name) {
    flags->resume = true;
    flags->resume_name = name == kAnyRun ? "" : name;
    return Status();
  };
  std::vector<Argument> arguments = run_arguments(flags);
  arguments.push_back(
      value("--resume", "[NAME]",
            "take over a run that has lost its supervisor, or continue from its newest checkpoint; needs no config",
            resume)
          .in("Job"));
  arguments.push_back(
      flag("--fresh", "with --resume: begin at the first step, whatever checkpoints there are or were", flags->fresh)
          .in("Job"));
  arguments.push_back(
      flag("--dry-run", "show hosts, ranks, commands and environment; start nothing", flags->dry_run).in("Job"));
  const auto run = [&invocation, flags] {
    flags->typed = typed_line(invocation);
    return run_or_detach(*flags, invocation.program);
  };
  return {"run",
          "train: start workers, supervise them, change their number",
          kGroupTrain,
          arguments,
          always(invocation, run),
          kExamples,
          true};
}

}  // namespace elastictrain::cli
