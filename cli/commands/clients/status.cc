#include "cli/commands/clients/status.h"

#include <unistd.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>

#include "cli/commands/cluster_client.h"
#include "cli/commands/command.h"
#include "cli/commands/exit_code.h"
#include "cli/commands/run_client.h"
#include "cli/config/text.h"
#include "cli/output/cluster_text.h"
#include "cli/output/status_text.h"
#include "cli/output/terminal.h"
#include "supervisor/protocol/json_text.h"

// `elastictrain status`: one table that shows slow workers, the reason for the size, and the last events.

namespace elastictrain::cli {
namespace {

struct StatusFlags {
  std::string name;
  std::string cluster;  // empty: a run
  bool json = false;
  bool watch = false;
  double interval_s = 1;
};

// Nothing: the run is not known, or it has not ended.
std::optional<int> print_ended(const StatusFlags& flags) {
  const auto directory = flags.name.empty() ? Error{ErrorCode::kUnavailable, ""} : find_run(flags.name);
  const auto record = directory.ok() ? load_run_record(*directory) : Result<RunRecord>(directory.error());
  if (!record.ok() || !record->end) return std::nullopt;
  if (flags.json) {
    std::cout << run_json(run_in(*directory)) << "\n";
    return std::cout.flush() ? kExitSuccess : kExitFailure;
  }
  const auto text = summary_of_ended(*directory, *record);
  if (!text.ok()) return complain("status", text.error());
  std::cout << *text;
  return std::cout.flush() ? kExitSuccess : kExitFailure;
}

bool begin_again(const StatusFlags& flags) {
  return !flags.watch || flags.json || clear_terminal();
}

int print_cluster(const StatusFlags& flags) {
  const ClusterAnswer answer = ask_cluster(flags.cluster, {{"command", "status"}});
  if (answer.status != 0) return show_answer("status", answer);
  const auto& cluster = answer.object["cluster"];
  if (!begin_again(flags)) return kExitFailure;
  std::cout << (flags.json ? json_text(cluster) + "\n"
                           : render_cluster_status(in_one_line(cluster), room_of(STDOUT_FILENO)))
            << std::flush;
  return std::cout ? kExitSuccess : kExitFailure;
}

// With --json only the answer is printed: the status object, on one line.
int print_once(const StatusFlags& flags) {
  if (!flags.cluster.empty()) return print_cluster(flags);
  const auto directory = find_live_run(flags.name);
  if (!directory.ok()) {
    const auto ended = print_ended(flags);
    return ended ? *ended : complain("status", directory.error());
  }
  const auto answer = ask_run(*directory, {{"command", "status"}});
  if (!answer.ok()) return complain("status", answer.error());
  const nlohmann::json status = answer->value("status", nlohmann::json::object());
  if (!begin_again(flags)) return kExitFailure;
  std::cout << (flags.json ? json_text(status) + "\n" : render_status(in_one_line(status), room_of(STDOUT_FILENO)))
            << std::flush;
  return std::cout ? kExitSuccess : kExitFailure;
}

int watch(const StatusFlags& flags) {
  const auto lives = [&] { return !flags.cluster.empty() || find_live_run(flags.name).ok(); };
  int status = print_once(flags);
  while (status == kExitSuccess && lives()) {
    std::this_thread::sleep_for(std::chrono::duration<double>(flags.interval_s));
    if (!lives()) return kExitSuccess;
    status = print_once(flags);
  }
  return status;
}

Status set_interval(StatusFlags& flags, const std::string& text) {
  flags.interval_s = parse_number(text).value_or(0);
  if (flags.interval_s >= 0.1 && flags.interval_s <= 3600) return {};
  return wrong_usage("--interval: '" + text + "' is not a number of seconds from 0.1 to 3600");
}

}  // namespace

int watch_status(const std::string& run_name, double interval_s) {
  StatusFlags flags;
  flags.name = run_name;
  flags.watch = true;
  flags.interval_s = interval_s;
  return watch(flags);
}

Command make_status(Invocation& invocation) {
  const auto flags = std::make_shared<StatusFlags>();
  const auto interval = [flags](const std::string& text) { return set_interval(*flags, text); };
  return {"status",
          "slow workers, the reason for the size, the last events; of an ended run its summary",
          kGroupClient,
          {word("run", "[NAME]", "name of the run, when several are live or it has ended", flags->name),
           flag("--json", "one JSON object", flags->json),
           flag("-w,--watch", "print the status repeatedly until the run ends", flags->watch),
           value("--cluster", "NAME|PATH", "the hosts and the jobs of a cluster, instead of a run", flags->cluster),
           value("--interval", "SECONDS", "seconds between two updates with --watch", interval)},
          [&invocation, flags]() -> Status {
            if (!flags->cluster.empty() && !flags->name.empty())
              return wrong_usage("--cluster is for a cluster; leave out the run " + flags->name);
            invocation.action = [flags] { return flags->watch ? watch(*flags) : print_once(*flags); };
            return {};
          }};
}

}  // namespace elastictrain::cli
