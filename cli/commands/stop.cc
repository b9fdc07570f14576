// `elastictrain stop`: ends the run at the next step boundary, or at once.
#include <memory>

#include "cli/commands/beside.h"
#include "cli/commands/command.h"

namespace elastictrain::cli {
namespace {

struct StopFlags {
  std::string name;
  bool now = false;
};

}  // namespace

void add_stop(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("stop", "end the run at the next step boundary");
  const auto flags = std::make_shared<StopFlags>();
  command->group(kGroupBeside);
  command->add_option("run", flags->name, "name of the run, when several are live")->type_name("[NAME]");
  command->add_flag("--now", flags->now, "send TERM to the workers at once, KILL after timeouts.grace_ms");
  command->final_callback([&invocation, flags] {
    invocation.action = [flags] { return ask_and_print(flags->name, {{"command", "stop"}, {"now", flags->now}}); };
  });
}

}  // namespace elastictrain::cli
