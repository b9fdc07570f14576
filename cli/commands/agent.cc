// `elastictrain agent`: started by a launcher, told everything over its standard input; not for people.
#include "launcher/agent/agent.h"

#include "cli/commands/command.h"

namespace elastictrain::cli {

void add_agent(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("agent", "one per host; started by run");
  command->group("");
  command->final_callback([&invocation] { invocation.action = [] { return launcher::run_agent(); }; });
}

}  // namespace elastictrain::cli
