// `elastictrain drain`: moves every worker off a host.
#include "cli/commands/command.h"
#include "cli/commands/run_and_value.h"
#include "cli/commands/run_client.h"

namespace elastictrain::cli {

Command make_drain(Invocation& invocation) {
  const ValueArgument host = {"HOST", "host, as status lists it", "say which host to drain",
                              "elastictrain drain hostA"};
  const auto use = [&invocation](const RunAndValue& request) -> Status {
    invocation.action = [request] {
      return ask_and_print(request.run, {{"command", "drain"}, {"host", request.value}});
    };
    return {};
  };
  return client_command("drain", "move every worker off a host", host, use);
}

}  // namespace elastictrain::cli
