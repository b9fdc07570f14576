// `elastictrain replace`: starts a new worker for a rank, or moves the workers of a host elsewhere.
#include <memory>
#include <utility>

#include "cli/commands/change_wait.h"
#include "cli/commands/command.h"
#include "cli/commands/run_and_value.h"
#include "cli/config/text.h"

namespace elastictrain::cli {

Command make_replace(Invocation& invocation) {
  const ValueArgument place = {"RANK|HOST", "rank of the worker, or a host", "say which rank or host to replace",
                               "elastictrain replace 1"};
  const auto wait = std::make_shared<WaitFlags>();
  const auto use = [&invocation, wait](const RunAndValue& request) -> Status {
    nlohmann::json order = {{"command", "replace"}};
    if (const auto rank = parse_whole_number(request.value)) {
      order["rank"] = *rank;
    } else {
      order["host"] = request.value;
    }
    invocation.action = [request, order, wait] { return ask_and_wait(request.run, order, *wait); };
    return {};
  };
  Command command =
      client_command("replace", "a new worker takes the place of a rank, or of those on a host", place, use);
  for (Argument& argument : wait_arguments(*wait, kWaitForChange)) command.arguments.push_back(std::move(argument));
  return command;
}

}  // namespace elastictrain::cli
