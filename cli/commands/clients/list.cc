// `elastictrain list`: all runs of this user on this machine. `elastictrain prune` removes what ended ones left.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>

#include "cli/commands/command.h"
#include "cli/commands/exit_code.h"
#include "cli/commands/run_client.h"
#include "cli/config/text.h"
#include "cli/output/figures.h"
#include "cli/output/terminal.h"
#include "supervisor/control/control_client.h"
#include "supervisor/run_directory.h"

namespace elastictrain::cli {
namespace {

int list(bool json) {
  const auto runs = known_runs();
  if (!runs.ok()) return complain("list", runs.error());
  if (json) {
    std::cout << runs_json(*runs) << "\n";
  } else if (runs->empty()) {
    std::cerr << "elastictrain list: no run yet; start one with: elastictrain run config.toml\n";
  }
  if (!json) std::cout << render_runs(*runs, room_of(STDOUT_FILENO));
  return std::cout.flush() ? kExitSuccess : kExitFailure;
}

struct PruneFlags {
  std::vector<std::string> names;  // empty: all
  std::uint64_t older_ms = 7ULL * 24 * 3600 * 1000;
  bool dry = false;
  bool yes = false;
  bool force = false;  // also those that have lost their supervisor
};

std::uint64_t bytes_below(const std::string& directory) {
  std::uint64_t bytes = 0;
  std::error_code failed;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory, failed)) {
    std::error_code no_file;
    const std::uint64_t size = entry.file_size(no_file);
    if (!no_file) bytes += size;
  }
  return bytes;
}

// Under the run's claim, so that no run of that name begins meanwhile.
Status remove_run(const std::string& directory) {
  const auto claimed = RunDirectory::claim(directory);
  if (!claimed.ok()) return claimed.error();
  std::error_code failed;
  std::filesystem::remove_all(directory, failed);
  return failed ? Status(Error{ErrorCode::kIo, "cannot remove " + directory + ": " + failed.message()}) : Status();
}

bool is_old(const ListedRun& run, std::uint64_t older_ms) {
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return run.exit_status && now - run.ended_unix_s.value_or(0) >= static_cast<double>(older_ms) / 1000;
}

Error not_over(const ListedRun& run, const std::string& directory) {
  const std::string begin = "run " + run.name + " has not ended (" + run.state + "); ";
  if (control::is_live(directory)) return {ErrorCode::kRefused, begin + "end it with: elastictrain stop " + run.name};
  return {ErrorCode::kRefused, begin + "take it over: elastictrain run --resume " + run.name +
                                   ", or give it up: elastictrain prune --force " + run.name};
}

// A run that was interrupted before it wrote anything is not listed, and can be removed by its name.
Status check_removable(const PruneFlags& flags, const std::vector<ListedRun>& runs, const std::string& name,
                       const std::string& state) {
  if (const Status good = check_run_name(name); !good.ok()) return good;
  const std::string directory = state + "/" + name;
  const auto run = std::find_if(runs.begin(), runs.end(), [&](const ListedRun& one) { return one.name == name; });
  std::error_code unknown;
  if (run == runs.end() && flags.force && std::filesystem::exists(directory + "/lock", unknown)) return {};
  if (run == runs.end()) {
    return Error{ErrorCode::kUnavailable,
                 "no run is named " + name + meant_run(name, state) + "; elastictrain list names all"};
  }
  const bool may_go = run->exit_status || (flags.force && !control::is_live(directory));
  return may_go ? Status() : Status(not_over(*run, directory));
}

Result<std::vector<std::string>> runs_to_remove(const PruneFlags& flags) {
  const auto state = state_directory();
  if (!state.ok()) return state.error();
  const auto runs = known_runs();
  if (!runs.ok()) return runs.error();
  std::vector<std::string> names;
  for (const ListedRun& run : *runs) {
    if (flags.names.empty() && is_old(run, flags.older_ms)) names.push_back(run.name);
  }
  for (const std::string& name : flags.names) {
    if (const Status good = check_removable(flags, *runs, name, *state); !good.ok()) return good.error();
    names.push_back(name);
  }
  return names;
}

// What is removed cannot be had back. Only a person at a terminal can be asked.
bool is_refused(const PruneFlags& flags, const std::vector<std::string>& names) {
  if (flags.dry || flags.yes || names.empty() || !surface_of(STDIN_FILENO).is_terminal) return false;
  for (const std::string& name : names) std::cerr << name << "\n";
  std::cerr << "Remove the journals and the output of " << (names.size() == 1 ? "this run" : "these runs")
            << "? [y/N] ";
  std::string answer;
  std::getline(std::cin, answer);
  return answer != "y" && answer != "Y" && answer != "yes";
}

int prune(const PruneFlags& flags) {
  const auto names = runs_to_remove(flags);
  if (!names.ok()) return complain("prune", names.error());
  const auto state = state_directory();
  if (!state.ok()) return complain("prune", state.error());
  if (is_refused(flags, *names)) {
    std::cerr << "elastictrain prune: nothing was removed\n";
    return kExitFailure;
  }
  std::uint64_t bytes = 0;
  for (const std::string& name : *names) {
    const std::string directory = *state + "/" + name;
    const std::uint64_t size = bytes_below(directory);
    const Status removed = flags.dry ? Status() : remove_run(directory);
    if (!removed.ok()) return complain("prune", removed.error());
    std::cout << name << "\n";
    bytes += size;
  }
  std::cerr << "elastictrain prune: " << names->size() << (names->size() == 1 ? " run " : " runs ")
            << (flags.dry ? "would be removed, " : "removed, ") << format_bytes(bytes) << "\n";
  return std::cout.flush() ? kExitSuccess : kExitFailure;
}

Status set_age(PruneFlags& flags, const std::string& text) {
  const auto age = parse_duration_ms(text);
  if (!age.ok()) return wrong_usage("--older: " + age.error().message);
  flags.older_ms = *age;
  return {};
}

}  // namespace

Command make_list(Invocation& invocation) {
  const auto json = std::make_shared<bool>(false);
  return {"list",
          "all runs of this user on this machine, live and ended",
          kGroupClient,
          {flag("--json", "one JSON array", *json)},
          always(invocation, [json] { return list(*json); })};
}

Command make_prune(Invocation& invocation) {
  const auto flags = std::make_shared<PruneFlags>();
  const auto choose = [&invocation, flags]() -> Status {
    invocation.action = [flags] { return prune(*flags); };
    if (flags->force && flags->names.empty())
      return wrong_usage("--force removes runs that are named: prune --force NAME");
    return {};
  };
  return {"prune",
          "remove the journals and the kept output of runs that have ended",
          kGroupClient,
          {words("runs", "[NAME]...", "names of ended runs; none: all that ended long enough ago", flags->names),
           value("--older", "TIME", "without names: only runs that ended at least this long ago; default 7d",
                 [flags](const std::string& text) { return set_age(*flags, text); }),
           flag("--dry-run", "only print their names", flags->dry),
           flag("-y,--yes", "do not ask at a terminal", flags->yes),
           flag("--force", "also a named run that has lost its supervisor: nobody can take it over afterwards",
                flags->force)},
          choose};
}

}  // namespace elastictrain::cli
