// `elastictrain torchrun`: takes torchrun's options, and is carried out by `run`.
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "cli/commands/command.h"
#include "cli/commands/run/torchrun_line.h"
#include "cli/config/load.h"
#include "cli/config/text.h"
#include "launcher/agent/host_facts.h"
#include "launcher/batch/allocation.h"

namespace elastictrain::cli {
namespace {

constexpr const char* kNotes = R"(
Examples:
  elastictrain torchrun --standalone --nproc-per-node gpu train.py --epochs 5
  elastictrain torchrun --nnodes 2 --nproc-per-node 8 -H hostA,hostB train.py
  elastictrain torchrun --nnodes 2 --nproc-per-node 8 --rdzv-endpoint hostA:29400 train.py    on both hosts
  elastictrain torchrun --nproc-per-node 4 --dry-run train.py
  elastictrain torchrun --nnodes 1:4 -H hostA,hostB,hostC,hostD --torch ddp.py    elastic without a change

Each option may also come from the environment, as PET_NNODES or PET_NPROC_PER_NODE. What differs from torchrun:
cli/TORCHRUN.md.
)";

constexpr const char* kIgnored = "accepted; nothing to do here";
constexpr const char* kOwnGroup = "Options of `elastictrain run`";

struct TextOption {
  const char* names;
  const char* type;
  const char* help;
  std::string TorchrunOptions::*target;
};
constexpr TextOption kTextOptions[] = {
    {"--nnodes", "N|MIN:MAX", "hosts", &TorchrunOptions::nnodes},
    {"--nproc-per-node", "N|auto|gpu|cpu", "workers of a host", &TorchrunOptions::nproc_per_node},
    {"--max-restarts", "N", "failures before the run ends; each restarts all workers if they do not use the library",
     &TorchrunOptions::max_restarts},
    {"--rdzv-id", "TEXT", "name of the run", &TorchrunOptions::rdzv_id},
    {"--role", "TEXT", "ROLE_NAME of the workers", &TorchrunOptions::role},
    {"--master-port", "PORT", "MASTER_PORT of the workers", &TorchrunOptions::master_port},
    {"--node-rank", "N", "with an endpoint: 0 trains, the others join", &TorchrunOptions::node_rank},
    {"--log-dir", "DIR", "directory for log files", &TorchrunOptions::log_dir},
    {"-r,--redirects", "0-3|RANK:0-3,...", "local ranks whose output only goes to files", &TorchrunOptions::redirects},
    {"-t,--tee", "0-3|RANK:0-3,...", "local ranks whose output goes to files and is shown", &TorchrunOptions::tee},
    {"--local-ranks-filter", "RANKS", "local ranks whose output is shown", &TorchrunOptions::local_ranks_filter},
    {"--log-line-prefix-template", "TEXT", "prefix of each line: ${role_name} ${rank} ${local_rank}",
     &TorchrunOptions::label_template},
    {"--numa-binding", "node", "processors of the GPU's NUMA node", &TorchrunOptions::numa_binding},
    {"--shutdown-timeout", "SECONDS", "time for a worker to end", &TorchrunOptions::shutdown_timeout},
    {"--rdzv-backend", "TEXT", kIgnored, &TorchrunOptions::ignored},
    {"--rdzv-endpoint", "HOST:PORT", "where the commands of several hosts meet", &TorchrunOptions::rdzv_endpoint},
    {"--rdzv-conf", "KEY=VALUE,...", "is_host, join_timeout and last_call_timeout; others have no effect",
     &TorchrunOptions::rdzv_conf},
    {"--master-addr", "HOST", "with --master-port: the endpoint of several hosts", &TorchrunOptions::master_addr},
    {"--local-addr", "HOST", kIgnored, &TorchrunOptions::ignored},
    {"--monitor-interval", "SECONDS", kIgnored, &TorchrunOptions::ignored},
    {"--start-method", "TEXT", kIgnored, &TorchrunOptions::ignored},
    {"--event-log-handler", "TEXT", kIgnored, &TorchrunOptions::ignored},
    {"--signals-to-handle", "LIST", kIgnored, &TorchrunOptions::ignored},
};

struct FlagOption {
  const char* names;
  const char* help;
  bool TorchrunOptions::*target;
};
constexpr FlagOption kFlagOptions[] = {
    {"-m,--module", "the program is a Python module", &TorchrunOptions::module},
    {"--no-python", "start the program itself, not by Python", &TorchrunOptions::no_python},
    {"--run-path", "start the program by Python's runpy", &TorchrunOptions::run_path},
    {"--standalone", kIgnored, &TorchrunOptions::ignored_flag},
};

constexpr const char* kRefused[][2] = {
    {"--logs-specs", "not offered: see log.directory and log.label of `elastictrain run`"},
    {"--duplicate-stdout-filters", "not offered: filter the files of --log-dir"},
    {"--duplicate-stderr-filters", "not offered: filter the files of --log-dir"},
};

// The variable in which torchrun looks for an option: PET_NPROC_PER_NODE.
const char* in_environment(const char* names) {
  std::string name = "PET_";
  for (const char letter : std::string(split(names, ',').back()).substr(2)) {
    name += letter == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  }
  return std::getenv(name.c_str());
}

std::vector<Argument> arguments_of(const std::shared_ptr<TorchrunOptions>& options) {
  std::vector<Argument> arguments;
  for (const TextOption& option : kTextOptions) {
    if (const char* set = in_environment(option.names)) (*options).*option.target = set;
    arguments.push_back(value(option.names, option.type, option.help, (*options).*option.target));
  }
  for (const FlagOption& option : kFlagOptions) {
    const char* set = in_environment(option.names);
    if (set != nullptr && std::string(set) == "1") (*options).*option.target = true;
    arguments.push_back(flag(option.names, option.help, (*options).*option.target));
  }
  for (const auto& [name, reason] : kRefused) {
    const std::string text = std::string(name) + ": " + reason;
    arguments.push_back(
        value(name, "TEXT", reason, [text](const std::string&) -> Status { return wrong_usage(text); }));
  }
  const std::string virtual_rank =
      "--virtual-local-rank: not offered: a worker chooses its GPU by LOCAL_RANK among CUDA_VISIBLE_DEVICES";
  arguments.push_back(Argument{Argument::Kind::kFlag, "--virtual-local-rank", "", "not offered",
                               [virtual_rank](const auto&) -> Status { return wrong_usage(virtual_rank); }, ""});
  const auto pass = [options](const std::string& name) {
    return [options, name](const std::vector<std::string>& values) {
      for (const std::string& value : values) options->passed_on.insert(options->passed_on.end(), {name, value});
      return Status();
    };
  };
  arguments.push_back(
      list("-H,--hosts", "LIST", "hosts with their slots, for example hostA:2,hostB:2", pass("--hosts")).in(kOwnGroup));
  arguments.push_back(list("-f,--hostfile", "FILE", "file with one host per line", pass("--hostfile")).in(kOwnGroup));
  arguments.push_back(list("-x", "VAR[=VALUE]", "environment variable for workers", pass("-x")).in(kOwnGroup));
  arguments.push_back(list("--set", "KEY=VALUE", "any key of the configuration", pass("--set")).in(kOwnGroup));
  const auto pass_flag = [options](const char* name) {
    return [options, name] { options->passed_on.emplace_back(name); };
  };
  arguments.push_back(flag("--torch",
                           "make an unchanged PyTorch script elastic; its Python needs the package elastictrain",
                           pass_flag("--torch"))
                          .in(kOwnGroup));
  arguments.push_back(value("--per-replica", "N",
                            "processes that hold one copy of a model together, as FSDP divides it",
                            options->per_replica)
                          .in(kOwnGroup));
  arguments.push_back(
      flag("--dry-run", "show what would be started; start nothing", pass_flag("--dry-run")).in(kOwnGroup));
  return arguments;
}

std::uint32_t visible_gpus() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::size_t count = visible != nullptr ? split(visible, ',').size() : launcher::usable_driver_gpus().size();
  return static_cast<std::uint32_t>(count);
}

TorchrunSurroundings torchrun_surroundings(const TorchrunOptions& options) {
  TorchrunSurroundings around;
  around.processors = launcher::usable_cores();
  around.gpus = visible_gpus();
  around.names_hosts = std::any_of(options.passed_on.begin(), options.passed_on.end(),
                                   [](const std::string& word) { return word == "--hosts" || word == "--hostfile"; });
  const auto variables = process_environment();
  around.has_allocation =
      launcher::detect_scheduler({variables.begin(), variables.end()}) != launcher::Scheduler::kNone;
  if (const char* python = std::getenv("PYTHON_EXEC")) around.python = python;
  std::error_code failed;
  const auto temporary = std::filesystem::temp_directory_path(failed);
  around.log_directory = (temporary / ("elastictrain-torchrun-" + std::to_string(::getpid()))).string();
  return around;
}

}  // namespace

Command make_torchrun(Invocation& invocation) {
  const auto options = std::make_shared<TorchrunOptions>();
  const auto choose = [&invocation, options]() -> Status {
    const auto line = run_line_of(*options, torchrun_surroundings(*options), invocation.program);
    if (!line) return line.error();
    invocation.program = line->program;
    invocation.instead = {"run"};
    invocation.instead.insert(invocation.instead.end(), line->arguments.begin(), line->arguments.end());
    return {};
  };
  return {"torchrun", "run with the options of torchrun", kGroupTrain, arguments_of(options), choose, kNotes};
}

}  // namespace elastictrain::cli
