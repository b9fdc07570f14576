// `elastictrain drain` and `undrain`: move every worker off a host, and let workers start there again.
#include "cli/commands/command.h"
#include "cli/commands/run_and_value.h"
#include "cli/commands/run_client.h"

namespace elastictrain::cli {
namespace {

Command host_command(Invocation& invocation, const std::string& name, const std::string& help,
                     const ValueArgument& host) {
  const auto use = [&invocation, name](const RunAndValue& request) -> Status {
    invocation.action = [request, name] {
      return ask_and_print(request.run, {{"command", name}, {"host", request.value}});
    };
    return {};
  };
  return client_command(name, help, host, use);
}

}  // namespace

Command make_drain(Invocation& invocation) {
  return host_command(invocation, "drain", "move every worker off a host, and start none there until it is undrained",
                      {"HOST", "host, as status lists it", "say which host to drain", "elastictrain drain hostA"});
}

Command make_undrain(Invocation& invocation) {
  return host_command(
      invocation, "undrain", "let workers start on a drained host again",
      {"HOST", "host, as status lists it", "say which host to use again", "elastictrain undrain hostA"});
}

}  // namespace elastictrain::cli
