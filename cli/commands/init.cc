// `elastictrain init`: writes a commented configuration for what this machine and its batch job offer.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>

#include "cli/commands/command.h"
#include "cli/commands/exit_code.h"
#include "cli/commands/init_text.h"
#include "cli/commands/run_client.h"
#include "cli/commands/run_flags.h"
#include "launcher/agent/driver_gpus.h"
#include "launcher/agent/host_facts.h"
#include "launcher/batch/allocation.h"

namespace elastictrain::cli {
namespace {

constexpr const char* kInitExamples = R"(
Examples:
  elastictrain init -- python3 train.py     config.toml for this program, here
  elastictrain init -o job.toml             for a program that is filled in later
  elastictrain init -o -                    on standard output
)";

struct InitFlags {
  std::string output = "config.toml";
  bool force = false;
};

Found look_around() {
  Found found;
  found.cores = launcher::usable_cores();
  found.gpus = launcher::usable_driver_gpus().size();
  const auto environment = process_environment();
  const std::map<std::string, std::string> variables(environment.begin(), environment.end());
  const launcher::Scheduler scheduler = launcher::detect_scheduler(variables);
  if (scheduler == launcher::Scheduler::kNone) return found;
  found.batch_system = launcher::name_of(scheduler);
  const auto allocation = launcher::read_allocation(scheduler, launcher::real_surroundings(variables));
  if (!allocation.ok()) return found;
  for (const launcher::Host& host : allocation->hosts) found.hosts.emplace_back(host.name, host.slots);
  return found;
}

int init(const InitFlags& flags, const std::vector<std::string>& program) {
  const Found found = look_around();
  const std::string text = init_text(found, program);
  if (flags.output == "-") {
    std::cout << text;
    return std::cout.flush() ? kExitSuccess : kExitFailure;
  }
  if (std::error_code ignored; !flags.force && std::filesystem::exists(flags.output, ignored)) {
    std::cerr << "elastictrain init: " << flags.output << " is there already; another name: -o FILE, or --force\n";
    return kExitCannotCreate;
  }
  std::ofstream file(flags.output);
  file << text;
  file.close();
  if (!file) {
    std::cerr << "elastictrain init: " << flags.output << " cannot be written\n";
    return kExitCannotCreate;
  }
  std::cout << flags.output << " is written for " << describe_found(found) << ". Next:\n"
            << (program.empty() ? "  put your program into `command`\n" : "") << "  elastictrain check " << flags.output
            << "\n  elastictrain run " << flags.output << "\n";
  return std::cout.flush() ? kExitSuccess : kExitFailure;
}

}  // namespace

Command make_init(Invocation& invocation) {
  const auto flags = std::make_shared<InitFlags>();
  return {"init",
          "write a commented configuration for what this machine offers",
          kGroupTrain,
          {value("-o,--output", "FILE", "the file; -: standard output; default: config.toml", flags->output),
           flag("--force", "write over a file that is there", flags->force)},
          always(invocation, [&invocation, flags] { return init(*flags, invocation.program); }),
          kInitExamples,
          true};
}

}  // namespace elastictrain::cli
