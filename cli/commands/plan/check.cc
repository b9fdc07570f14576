// `elastictrain check`: checks the configuration and its hosts, and shows every value with its origin.
#include <algorithm>
#include <asio/io_context.hpp>
#include <chrono>
#include <cmath>
#include <iostream>
#include <memory>

#include "cli/commands/cluster_client.h"
#include "cli/commands/command.h"
#include "cli/commands/exit_code.h"
#include "cli/commands/plan/check_hosts.h"
#include "cli/commands/plan/check_report.h"
#include "cli/commands/run/checkpoint_directory.h"
#include "cli/commands/run/launchers.h"
#include "cli/commands/run/live_run.h"
#include "cli/commands/run/program_check.h"
#include "cli/commands/run/resume.h"
#include "cli/commands/run_flags.h"
#include "cli/config/contradictions.h"
#include "cli/config/key_value.h"
#include "cli/config/schema.h"
#include "cli/output/config_reference.h"
#include "cli/output/figures.h"
#include "cli/output/protection.h"
#include "cli/output/table.h"
#include "launcher/agent_program.h"
#include "supervisor/protocol/display_text.h"
#include "supervisor/run_directory.h"

namespace elastictrain::cli {
namespace {

constexpr double kClockLimit_s = 1.0;  // beyond it, times in logs do not match

// Keys of the trainer and of ssh are shown only where they are used.
bool is_shown(const RunConfig& config, const RunPlan& plan, const KeySpec& key) {
  if (key.name.starts_with("trainer.")) return config.use_trainer;
  if (key.name.starts_with("launcher.ssh") || key.name == "launcher.copy_binary") return !plan.all_local;
  if (key.name == "launcher.mpi_command") return plan.mpi_tool.has_value();
  return true;
}

std::string render_settings(const LoadedConfig& loaded, const RunPlan& plan, bool all) {
  Table table({{"key"}, {"value"}, {"from"}});
  for (const KeySpec& key : schema()) {
    const std::string value = render_value(loaded.config, key);
    const bool is_default = loaded.origins.find(key.name) == loaded.origins.end();
    if (value.empty() || (is_default && !all) || !is_shown(loaded.config, plan, key)) continue;
    table.add_row({key.name, value + (key.unit.empty() ? "" : " " + key.unit), loaded.where(key.name)});
  }
  return table.render();
}

std::string render_sizes(const core::RunSettings& settings) {
  return "workers: " + std::to_string(settings.start_workers) + " to start with, " +
         std::to_string(settings.min_workers) + " to " + std::to_string(settings.max_workers) + "\n";
}

// Shortest first, so that a reader sees the order in which they expire.
std::string render_deadlines(const RunConfig& config) {
  std::vector<std::pair<std::uint64_t, const KeySpec*>> deadlines;
  for (const KeySpec& key : schema()) {
    const bool is_deadline = key.name.starts_with("timeouts.") || key.name.ends_with("timeout_ms");
    const auto* field = std::get_if<IntegerField>(&key.field);
    if (!is_deadline || field == nullptr) continue;
    RunConfig copy = config;
    const std::uint64_t amount = field->at(copy) * (key.unit == "seconds" ? 1000 : 1);
    if (amount > 0) deadlines.emplace_back(amount, &key);
  }
  std::stable_sort(deadlines.begin(), deadlines.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Table table({{"deadline", Align::kRight}, {"key"}, {"what"}});
  for (const auto& [amount, key] : deadlines) {
    table.add_row({format_duration(static_cast<double>(amount) / 1000), key->name, key->help});
  }
  return table.render();
}

bool is_our_build(const std::string& version) {
  return version == ELASTICTRAIN_VERSION || version == launcher::build_id();
}

std::string remark(const HostReport& report) {
  if (!report.obstacle().empty()) return report.obstacle();
  if (!report.missing_file.empty()) return report.missing_file;
  if (!is_our_build(report.binary_version)) return "has another version: " + report.binary_version;
  if (std::abs(report.clock_difference_s) > kClockLimit_s)
    return "its clock differs from ours; times in logs will not match";
  if (report.cores < report.slots && report.gpus.empty()) return "more slots than cores";
  return "good";
}

std::string render_reports(const std::vector<HostReport>& reports) {
  Table table({{"host"},
               {"slots", Align::kRight},
               {"cores", Align::kRight},
               {"memory", Align::kRight},
               {"GPUs"},
               {"version"},
               {"start", Align::kRight},
               {"round trip", Align::kRight},
               {"clock", Align::kRight},
               {"from"},
               {"verdict"}});
  for (const HostReport& report : reports) {
    const std::string slots = std::to_string(report.slots);
    if (!report.reached) {
      table.add_row({report.host, slots, "-", "-", "-", "-", "-", "-", "-", "-", remark(report)});
      continue;
    }
    const std::string sign = report.clock_difference_s < 0 ? "-" : "+";
    table.add_row({report.host, slots, std::to_string(report.cores), format_bytes(report.memory_bytes),
                   gpu_text(report), report.binary_version, format_duration(report.start_s),
                   format_duration(report.round_trip_s), sign + format_duration(std::abs(report.clock_difference_s)),
                   report.connected_from, remark(report)});
  }
  return table.render();
}

std::string render_mpi(const RunConfig& config, const RunPlan& plan) {
  asio::io_context io;
  const auto launcher = make_launcher(io, config, plan, [](const launcher::LaunchEnded&) {});
  return launcher.ok() ? describe_mpi(plan, **launcher) : std::string();
}

// Reads the discovery program once. `run` starts it again and again.
Result<std::vector<launcher::Host>> discover(const RunConfig& config, const RunPlan& plan) {
  asio::io_context io;
  const auto source = make_host_source(io, config, plan);
  const std::chrono::milliseconds limit(config.timeouts.start_ms);
  Result<std::vector<launcher::Host>> found =
      Error{ErrorCode::kTimeout, "hosts.discover gave no answer within " + protocol::duration_text(limit)};
  source->poll([&](Result<std::vector<launcher::Host>> hosts) {
    found = std::move(hosts);
    io.stop();
  });
  io.run_for(limit);
  return found;
}

int conclude(const CheckFindings& findings) {
  const CheckVerdict verdict = verdict_on(findings);
  for (const std::string& warning : verdict.warnings) std::cout << "warning: " << warning << "\n";
  for (const std::string& problem : verdict.problems) std::cout << "problem: " << problem << "\n";
  std::cout << "verdict: " << verdict.text << std::endl;
  return verdict.status;
}

Status look_at_checkpoints(const RunConfig& config, const RunPlan& plan) {
  const std::string& run = plan.settings.run_name;
  CheckpointPlace place = checkpoint_place_of(config.checkpoint);
  place.directory = checkpoint_directory_of(config, run);
  if (place.directory.empty()) return {};
  if (Status writable = try_checkpoint_directory(place); !writable.ok()) return writable;
  const auto run_directory = run_directory_of(run);
  return may_claim({.place = place,
                    .run = run,
                    .run_directory = run_directory.ok() ? *run_directory : "",
                    .adopts = config.checkpoint.adopt});
}

Status look_at_run_directory(const RunPlan& plan) {
  const auto directory = run_directory_of(plan.settings.run_name);
  return directory.ok() ? RunDirectory::may_claim(*directory) : Status(directory.error());
}

// What ends a run before it asks a host. Directories of other machines are looked at by their workers.
std::vector<Obstacle> look_here(const RunConfig& config, const RunPlan& plan, bool with_torch) {
  std::vector<Obstacle> found;
  const auto add = [&found](const Status& looked) {
    if (!looked.ok()) found.push_back({looked.error().message, status_of_start(looked.error())});
  };
  if (with_torch) add(check_torch_package(config.command));
  add(look_at_run_directory(plan));
  add(try_log_directory(config.log.directory));
  const Status checkpoints = look_at_checkpoints(config, plan);
  if (plan.all_local) add(checkpoints);
  if (!plan.all_local && !checkpoints.ok())
    std::cout << "warning: on this machine " << checkpoints.error().message << "\n";
  if (!config.cluster.empty()) {
    const ClusterAnswer answer = ask_cluster(config.cluster, {{"command", "status"}});
    if (answer.status != 0) found.push_back({answer.text, kExitUnavailable});
  }
  return found;
}

void print_reports(const std::vector<HostReport>& reports, const RunConfig& config) {
  const bool have_gpus =
      std::any_of(reports.begin(), reports.end(), [](const HostReport& report) { return !report.gpus.empty(); });
  if (const std::string left = gpus_leave_in_clear(config.network); have_gpus && !left.empty())
    std::cout << "between hosts: " << left << "\n\n";
  std::cout << render_reports(reports) << "\n"
            << render_networks(reports) << "\n"
            << render_gpus(reports) << render_worker_settings(reports, config.network.interface)
            << render_differences(reports) << render_shortages(reports);
}

int check_plan(const LoadedConfig& loaded, RunPlan plan, bool show_all, bool with_torch) {
  if (const Status named = names_hosts_in_file(loaded.config, plan); !named.ok()) {
    std::cerr << "elastictrain check: " << named.error().message << "\n";
    return status_of_start(named.error());
  }
  std::cout << render_settings(loaded, plan, show_all) << "\n"
            << render_sizes(plan.settings) << describe_protection(loaded.config.network) << "\n"
            << (plan.allocation ? describe_allocation(loaded.config, plan) + "\n" : "")
            << render_mpi(loaded.config, plan) << "\n"
            << (show_all ? render_deadlines(loaded.config) : "defaults and deadlines: elastictrain check --all\n")
            << std::endl;
  if (!loaded.config.hosts.discover.empty()) {
    auto hosts = discover(loaded.config, plan);
    if (!hosts.ok()) {
      std::cerr << "elastictrain check: " << hosts.error().message << "\n";
      return kExitUnavailable;
    }
    plan.hosts = std::move(*hosts);
  }
  const RunConfig& config = loaded.config;
  CheckFindings findings{.here = look_here(config, plan, with_torch),
                         .min_workers = plan.settings.min_workers,
                         .start_workers = plan.settings.start_workers};
  findings.hosts_come_later = !config.hosts.endpoint.empty() || !config.hosts.expand.empty() || !config.cluster.empty();
  if (!config.cluster.empty()) return conclude(findings);
  auto reports = check_hosts(config, plan);
  if (!reports.ok()) {
    std::cerr << "elastictrain check: " << reports.error().message << "\n";
    return status_of_start(reports.error());
  }
  print_reports(*reports, config);
  findings.hosts = std::move(*reports);
  return conclude(findings);
}

int check_command(const RunFlags& flags, const std::vector<std::string>& program, bool show_all) {
  const auto environment = process_environment();
  const auto loaded = load_from_flags(flags, program, environment);
  if (const auto* error = std::get_if<ConfigError>(&loaded)) {
    std::cerr << error_text("check", *error) << "\n";
    return exit_status_of(*error);
  }
  const auto& good = std::get<LoadedConfig>(loaded);
  const auto here = current_directory();
  auto plan = here.ok() ? make_plan(good.config, {environment, *here, "check", environment}) : here.error();
  if (plan.ok()) return check_plan(good, std::move(*plan), show_all, flags.torch);
  std::cerr << "elastictrain check: " << plan.error().message << "\n";
  return status_of_start(plan.error());
}

int print_page(const std::string& page) {
  std::cout << page;
  return std::cout.flush() ? kExitSuccess : kExitFailure;
}

}  // namespace

Command make_check(Invocation& invocation) {
  const auto flags = std::make_shared<RunFlags>();
  const auto reference = std::make_shared<bool>(false);
  const auto for_editors = std::make_shared<bool>(false);
  const auto show_all = std::make_shared<bool>(false);
  const auto script = std::make_shared<bool>(false);
  std::vector<Argument> arguments = run_arguments(flags);
  arguments.push_back(flag("--script",
                           "train an unchanged PyTorch script for some steps here, and try whether a new worker could "
                           "take over; check nothing else",
                           *script)
                          .in("Job"));
  arguments.push_back(flag("--all", "print every value, also defaults, and all deadlines", *show_all).in("Job"));
  arguments.push_back(
      flag("--reference", "print the page of all configuration keys (Markdown); check nothing", *reference).in("Job"));
  arguments.push_back(
      flag("--schema", "print a JSON schema of the configuration, for editors; check nothing", *for_editors).in("Job"));
  const auto check = [&invocation, flags, reference, for_editors, show_all, script] {
    if (*script) return check_script(invocation.program);
    if (*reference) return print_page(render_config_reference());
    if (*for_editors) return print_page(render_config_schema());
    return check_command(*flags, invocation.program, *show_all);
  };
  return {"check", "check the configuration and its hosts", kGroupTrain, arguments, always(invocation, check), "",
          true};
}

}  // namespace elastictrain::cli
