#include "cli/commands/plan/init.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>

#include "cli/commands/command.h"
#include "cli/commands/exit_code.h"
#include "cli/commands/run_client.h"
#include "cli/commands/run_flags.h"
#include "launcher/agent/host_facts.h"
#include "launcher/batch/allocation.h"
#include "supervisor/protocol/json_text.h"

namespace elastictrain::cli {
namespace {

// What this machine or the job has room for.
std::uint64_t slots_of(const Found& found) {
  if (found.hosts.empty()) return std::max<std::uint64_t>(1, found.gpus > 0 ? found.gpus : found.cores);
  std::uint64_t slots = 0;
  for (const auto& [host, count] : found.hosts) slots += count;
  return std::max<std::uint64_t>(1, slots);
}

// A JSON string without control characters is a TOML string.
std::string command_text(const std::vector<std::string>& program) {
  std::string text;
  for (const std::string& word : program) text += (text.empty() ? "" : ", ") + quoted_json(word);
  return "[" + text + "]";
}

std::string hosts_text(const Found& found) {
  if (!found.hosts.empty()) {
    std::string text =
        "[hosts]\n# Hosts and slots come from the job of " + found.batch_system + " that a run is in; now:\n";
    for (const auto& [host, slots] : found.hosts) text += "#   " + host + ":" + std::to_string(slots) + "\n";
    return text + "scheduler = \"auto\"\n";
  }
  const std::string slots = std::to_string(slots_of(found));
  return "[hosts]\nlist = [\"localhost:" + slots +
         "\"]   # a slot is a place for one worker; more hosts: \"name:slots\"\n"
         "# file = \"hosts\"                # or a file with one host per line\n"
         "# discover = \"./hosts.sh\"       # or a program that prints them, again and again\n";
}

std::string bind_text(const Found& found) {
  return found.gpus > 0 ? "bind = \"numa\"   # each worker on the cores beside its GPU\n"
                        : "# bind = \"core\"   # each worker on cores of its own\n";
}

}  // namespace

std::string describe_found(const Found& found) {
  const auto counted = [](std::uint64_t n, const char* what) {
    return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
  };
  if (!found.hosts.empty()) {
    return counted(found.hosts.size(), "host") + " of " + found.batch_system + " with " +
           counted(slots_of(found), "slot");
  }
  const std::string gpus = found.gpus > 0 ? counted(found.gpus, "GPU") + " and " : "";
  return gpus + counted(found.cores, "core") + " of this machine";
}

std::string init_text(const Found& found, const std::vector<std::string>& program) {
  const std::string slots = std::to_string(slots_of(found));
  std::string text = "# Written by `elastictrain init` for " + describe_found(found) +
                     ".\n# `elastictrain check --all FILE` lists every key, `elastictrain check --schema` is a schema "
                     "for editors.\n\n";
  if (program.empty()) {
    text += "command = [\"./train\", \"--epochs\", \"5\"]   # your program\n\n";
  } else {
    text += "command = " + command_text(program) + "\n\n";
  }
  text += "[workers]\nmin = 1          # with fewer, training waits\nstart = " + slots + "\nmax = " + slots + "\n" +
          bind_text(found) + "\n" + hosts_text(found) + "\n";
  text +=
      "[batch]\n# per_worker = 32      # samples of one worker in a step; else as the program says\n"
      "# max_global = 4096    # samples of all workers in a step, at most\n\n"
      "[checkpoint]\n# directory = \"checkpoints\"   # a run that is lost as a whole continues from here\n"
      "# interval_steps = 1000\n\n"
      "[failures]\non_failure = \"replace\"   # shrink: go on with fewer; stop: end the run\n\n"
      "# [policy]\n# name = \"efficiency\"     # finds the size by itself, between workers.min and workers.max\n";
  return text;
}

// `elastictrain init`: writes a commented configuration for what this machine and its batch job offer.
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
