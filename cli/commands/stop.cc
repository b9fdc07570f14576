// `elastictrain stop`: ends the run at the next step boundary, or at once.
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include "cli/commands/change_wait.h"
#include "cli/commands/command.h"
#include "cli/commands/ended_run.h"
#include "cli/commands/exit_code.h"
#include "cli/commands/resume.h"
#include "cli/commands/run_client.h"
#include "cli/config/text.h"
#include "supervisor/control/control_client.h"
#include "supervisor/protocol/duration_text.h"

namespace elastictrain::cli {
namespace {

constexpr std::chrono::milliseconds kLookForEnd{50};

struct StopFlags {
  std::string name;
  bool now = false;
  WaitFlags wait;
};

void say_way_back(const std::string& directory) {
  const auto recorded = find_recorded(directory);
  if (!recorded || recorded->config.checkpoint.directory.empty()) return;
  std::cout << "continue later with: elastictrain run --resume " << std::filesystem::path(directory).filename().string()
            << "\n";
}

// Until the run has ended. Its processes are over before it says so.
Result<RunRecord> wait_for_end(const std::string& directory, const StopFlags& flags) {
  const std::chrono::milliseconds timeout(flags.wait.timeout_ms);
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (std::chrono::steady_clock::now() < deadline) {
    // Asked first: the record of the end is written while the run still answers.
    const bool lives = control::is_live(directory);
    auto record = load_run_record(directory);
    if (record.ok() && record->end) return record;
    if (!lives) return lost_supervisor(std::filesystem::path(directory).filename());
    std::this_thread::sleep_for(kLookForEnd);
  }
  return Error{ErrorCode::kTimeout,
               "the run has not ended within " + protocol::duration_text(timeout) +
                   "; it is still stopping: elastictrain status; end it at once with: " + "elastictrain stop --now"};
}

int stop(const StopFlags& flags) {
  const auto directory = find_live_run(flags.name);
  if (!directory.ok()) return complain("stop", directory.error());
  const int status = ask_and_print(flags.name, {{"command", "stop"}, {"now", flags.now}});
  if (status != kExitSuccess) return status;
  int result = kExitSuccess;
  if (flags.wait.wait) {
    const auto ended = wait_for_end(*directory, flags);
    if (!ended.ok()) return complain("stop", ended.error());
    std::cout << how_it_ended(*ended) << "\n";
    result = ended->end->exit_status == kExitSuccess ? kExitSuccess : kExitFailure;
  }
  say_way_back(*directory);
  return result;
}

}  // namespace

Command make_stop(Invocation& invocation) {
  const auto flags = std::make_shared<StopFlags>();
  std::vector<Argument> arguments = {
      word("run", "[NAME]", "name of the run, when several are live", flags->name),
      flag("--now", "send TERM to the workers at once, KILL after timeouts.grace_ms", flags->now)};
  for (Argument& one :
       wait_arguments(flags->wait, "return when the run has ended, with status 1 if it did not end with 0"))
    arguments.push_back(std::move(one));
  return {"stop", "end the run at the next step boundary", kGroupClient, std::move(arguments),
          always(invocation, [flags] { return stop(*flags); })};
}

}  // namespace elastictrain::cli
