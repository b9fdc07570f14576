// `elastictrain status`: one table that shows slow workers, the reason for the size, and the last events.
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <thread>

#include "cli/commands/beside.h"
#include "cli/commands/command.h"
#include "cli/config/text.h"
#include "cli/exit_code.h"
#include "cli/output/status_text.h"
#include "cli/output/style.h"
#include "supervisor/protocol/json_text.h"

namespace elastictrain::cli {
namespace {

struct StatusFlags {
  std::string name;
  bool json = false;
  bool watch = false;
  double interval_s = 1;
};

constexpr const char* kHomeAndClear = "\x1b[H\x1b[2J";

// With --json only the answer is printed: the status object, on one line.
int print_once(const StatusFlags& flags) {
  const auto directory = find_live_run(flags.name);
  if (!directory.ok()) return complain("status", directory.error());
  const auto answer = ask_run(*directory, {{"command", "status"}});
  if (!answer.ok()) return complain("status", answer.error());
  const nlohmann::json status = answer->value("status", nlohmann::json::object());
  const bool redraw = flags.watch && !flags.json && surface_of(STDOUT_FILENO).is_terminal;
  std::cout << (redraw ? kHomeAndClear : "") << (flags.json ? json_text(status) + "\n" : render_status(status))
            << std::flush;
  return std::cout ? kExitSuccess : kExitFailure;
}

int watch(const StatusFlags& flags) {
  int status = print_once(flags);
  while (status == kExitSuccess) {
    std::this_thread::sleep_for(std::chrono::duration<double>(flags.interval_s));
    if (!find_live_run(flags.name).ok()) return kExitSuccess;
    status = print_once(flags);
  }
  return status;
}

std::string check_interval(const std::string& text) {
  const double seconds = parse_number(text).value_or(0);
  return seconds >= 0.1 && seconds <= 3600 ? "" : "'" + text + "' is not a number of seconds from 0.1 to 3600";
}

}  // namespace

void add_status(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("status", "slow workers, the reason for the size, the last events");
  const auto flags = std::make_shared<StatusFlags>();
  command->group(kGroupBeside);
  command->add_option("run", flags->name, "name of the run, when several are live")->type_name("[NAME]");
  command->add_flag("--json", flags->json, "one JSON object");
  command->add_flag("-w,--watch", flags->watch, "print the status repeatedly until the run ends");
  command->add_option("--interval", flags->interval_s, "seconds between two updates with --watch")
      ->check(check_interval)
      ->type_name("SECONDS");
  command->final_callback([&invocation, flags] {
    invocation.action = [flags] { return flags->watch ? watch(*flags) : print_once(*flags); };
  });
}

}  // namespace elastictrain::cli
