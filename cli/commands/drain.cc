// `elastictrain drain`: moves every worker off a host.
#include "cli/commands/beside.h"
#include "cli/commands/command.h"
#include "cli/commands/run_and_value.h"

namespace elastictrain::cli {

void add_drain(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("drain", "move every worker off a host");
  command->group(kGroupBeside);
  const ValueArgument host = {"HOST", "host, as status lists it", "say which host to drain",
                              "elastictrain drain hostA"};
  add_run_and_value(*command, host, [&invocation](const RunAndValue& request) {
    invocation.action = [request] {
      return ask_and_print(request.run, {{"command", "drain"}, {"host", request.value}});
    };
  });
}

}  // namespace elastictrain::cli
