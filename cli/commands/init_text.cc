#include "cli/commands/init_text.h"

#include <algorithm>

#include "supervisor/protocol/json_value.h"

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

}  // namespace elastictrain::cli
