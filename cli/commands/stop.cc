// `elastictrain stop`: ends the run at the next step boundary, or at once.
#include <memory>

#include "cli/commands/command.h"
#include "cli/commands/run_client.h"

namespace elastictrain::cli {
namespace {

struct StopFlags {
  std::string name;
  bool now = false;
};

}  // namespace

Command make_stop(Invocation& invocation) {
  const auto flags = std::make_shared<StopFlags>();
  const auto stop = [flags] { return ask_and_print(flags->name, {{"command", "stop"}, {"now", flags->now}}); };
  return {"stop",
          "end the run at the next step boundary",
          kGroupClient,
          {word("run", "[NAME]", "name of the run, when several are live", flags->name),
           flag("--now", "send TERM to the workers at once, KILL after timeouts.grace_ms", flags->now)},
          always(invocation, stop)};
}

}  // namespace elastictrain::cli
