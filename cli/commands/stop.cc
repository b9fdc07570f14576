// `elastictrain stop`: ends the run at the next step boundary, or at once.
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include "cli/commands/command.h"
#include "cli/commands/exit_code.h"
#include "cli/commands/resume.h"
#include "cli/commands/run_client.h"

namespace elastictrain::cli {
namespace {

struct StopFlags {
  std::string name;
  bool now = false;
};

void say_way_back(const std::string& directory) {
  const auto recorded = find_recorded(directory);
  if (!recorded || recorded->config.checkpoint.directory.empty()) return;
  std::cout << "continue later with: elastictrain run --resume " << std::filesystem::path(directory).filename().string()
            << "\n";
}

}  // namespace

Command make_stop(Invocation& invocation) {
  const auto flags = std::make_shared<StopFlags>();
  const auto stop = [flags] {
    const auto directory = find_live_run(flags->name);
    const int status = ask_and_print(flags->name, {{"command", "stop"}, {"now", flags->now}});
    if (status == kExitSuccess && directory.ok()) say_way_back(*directory);
    return status;
  };
  return {"stop",
          "end the run at the next step boundary",
          kGroupClient,
          {word("run", "[NAME]", "name of the run, when several are live", flags->name),
           flag("--now", "send TERM to the workers at once, KILL after timeouts.grace_ms", flags->now)},
          always(invocation, stop)};
}

}  // namespace elastictrain::cli
