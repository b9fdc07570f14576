#include "cli/commands/run/run.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/io_context.hpp>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>
#include <variant>

#include "cli/commands/command.h"
#include "cli/commands/exit_code.h"
#include "cli/commands/run/endpoint.h"
#include "cli/commands/run/launchers.h"
#include "cli/commands/run/live_run.h"
#include "cli/commands/run/program_check.h"
#include "cli/commands/run/resume.h"
#include "cli/commands/run/run_plan.h"
#include "cli/commands/run_flags.h"
#include "cli/output/printable.h"
#include "cli/output/protection.h"
#include "cli/output/table.h"
#include "supervisor/core/pure/message_text.h"
#include "supervisor/worker_program.h"

namespace elastictrain::cli {
namespace {

struct Place {
  std::string host;
  std::uint32_t node = 0;
  std::uint32_t slot = 0;
};

// Hosts are filled in order, slot by slot.
std::vector<Place> place_workers(const RunPlan& plan) {
  std::vector<Place> places;
  const std::vector<launcher::Host>& hosts = plan.worker_hosts;
  for (std::uint32_t node = 0; node < hosts.size(); ++node) {
    for (std::uint32_t slot = 0; slot < hosts[node].slots; ++slot) {
      if (places.size() < plan.settings.start_workers) places.push_back({hosts[node].name, node, slot});
    }
  }
  return places;
}

std::uint32_t workers_on(const std::vector<Place>& places, std::uint32_t node) {
  return static_cast<std::uint32_t>(
      std::count_if(places.begin(), places.end(), [node](const Place& p) { return p.node == node; }));
}

// One command starts all ranks of an MPI pool.
std::string render_planned_hosts(const RunPlan& plan, const launcher::Launcher& launcher) {
  Table hosts({{"host"}, {"slots", Align::kRight}, {"agent"}});
  const bool pool = !plan.mpi_hosts.empty();
  for (const launcher::Host& host : plan.hosts) {
    const std::string agent = pool ? "by the command above" : shell_text(launcher.command_line(host.name));
    hosts.add_row({host.name, std::to_string(host.slots), agent});
  }
  return hosts.render();
}

std::string render_places(const std::vector<Place>& places) {
  Table table({{"rank", Align::kRight}, {"host"}, {"slot", Align::kRight}});
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    table.add_row({std::to_string(rank), places[rank].host, std::to_string(places[rank].slot)});
  }
  return table.render();
}

std::string render_environment(const RunPlan& plan, const std::vector<Place>& places) {
  core::SpawnWorker first;
  first.worker.value = 1;
  if (!places.empty()) first.slots = plan.worker_hosts[places.front().node].slots;
  first.world_size = static_cast<std::uint32_t>(places.size());
  first.local_world_size = places.empty() ? 1 : workers_on(places, places.front().node);
  WorkerSurroundings around;
  around.run_name = plan.settings.run_name;
  around.node_count = places.empty() ? 1 : places.back().node + 1;
  around.master_address = plan.advertise_addresses.front();
  around.max_restarts = plan.settings.failures.max_crashes;
  around.user_environment = plan.program.environment;
  std::string text;
  for (const std::string& variable : worker_environment(first, around)) {
    const bool chosen_later = variable.starts_with("MASTER_");
    text += "  " + (chosen_later ? variable.substr(0, variable.find('=')) + "=(chosen at the start)" : variable) + "\n";
  }
  return text;
}

}  // namespace

std::string render_dry_run(const RunConfig& config, const RunPlan& plan, const launcher::Launcher& launcher) {
  const core::RunSettings& settings = plan.settings;
  const std::vector<Place> places = place_workers(plan);
  std::string text =
      "run " + settings.run_name + ": " + core::counted(settings.start_workers, "worker") + " to start with (" +
      std::to_string(settings.min_workers) + " to " + std::to_string(settings.max_workers) + "), batch " +
      (settings.batch_of_program ? "as the program says" : std::to_string(settings.batch.per_worker) + " per worker") +
      "\n";
  text += describe_protection(config.network) + "\n";
  if (plan.allocation) text += describe_allocation(config, plan) + "\n";
  text += describe_mpi(plan, launcher);
  text += "\nhosts\n";
  text += render_planned_hosts(plan, launcher);
  if (!config.hosts.discover.empty()) text += "(from " + config.hosts.discover + ", which --dry-run does not run)\n";
  text += "\nranks, when every host answers\n" + render_places(places);
  text += "\nprogram\n  " + shell_text(plan.program.argv) + "\n";
  if (!plan.program.working_directory.empty()) text += "  in " + plan.program.working_directory + "\n";
  return text + "\nenvironment of rank 0\n" + render_environment(plan, places);
}

namespace {

// Of the child, for the handler.
volatile pid_t child_of_command = 0;

void pass_on(int signal) {
  const int kept = errno;
  ::kill(child_of_command, signal);
  errno = kept;
}

// A terminal sends INT to both processes; the child decides what it means.
void leave_signals_to(pid_t child) {
  child_of_command = child;
  std::signal(SIGINT, SIG_IGN);
  struct sigaction action {};
  action.sa_handler = pass_on;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
}

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 256> block;
  for (;;) {
    const ssize_t count = ::read(descriptor, block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(block.data(), static_cast<std::size_t>(count));
  }
}

int status_of_child(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return kExitInternal;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int wait_until_begun(pid_t child, int notice) {
  leave_signals_to(child);
  const std::string name = read_all(notice);
  ::close(notice);
  if (name.empty()) return status_of_child(child);
  std::cerr << "elastictrain: run " << name << " trains detached, process " << child << "; look: elastictrain status "
            << name << ", elastictrain logs -f " << name << "; end it: elastictrain stop " << name << "\n";
  return kExitSuccess;
}

int cannot(const char* what) {
  std::cerr << "elastictrain run: --detach: cannot " << what << ": " << std::strerror(errno) << "\n";
  return kExitUnavailable;
}

}  // namespace

Detachment::~Detachment() {
  if (notice_ >= 0) ::close(notice_);
}

void Detachment::begun(const std::string& run_name) {
  if (notice_ < 0) return;
  ::setsid();
  const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (nowhere >= 0) ::dup2(nowhere, standard);
  }
  if (nowhere > STDERR_FILENO) ::close(nowhere);
  // A command that is gone already needs no notice.
  (void)!::write(notice_, run_name.data(), run_name.size());
  ::close(notice_);
  notice_ = -1;
}

int run_detached(const std::function<int(Detachment&)>& run) {
  std::array<int, 2> notice{};
  if (::pipe2(notice.data(), O_CLOEXEC) != 0) return cannot("make a pipe");
  const pid_t child = ::fork();
  if (child < 0) return cannot("start a process");
  if (child > 0) {
    ::close(notice[1]);
    return wait_until_begun(child, notice[0]);
  }
  ::close(notice[0]);
  int status = 0;
  {
    Detachment detachment(notice[1]);
    status = run(detachment);
  }
  std::cout.flush();
  std::_Exit(status);
}

// `elastictrain run`: reads the configuration, then starts the run or shows what it would start.
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
