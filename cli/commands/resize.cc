// `elastictrain resize`: requests another number of workers. Training continues during the change.
#include "cli/commands/command.h"
#include "cli/commands/run_and_value.h"
#include "cli/commands/run_client.h"
#include "cli/config/text.h"

namespace elastictrain::cli {

Command make_resize(Invocation& invocation) {
  const ValueArgument size = {"N", "number of workers", "say how many workers", "elastictrain resize 4"};
  const auto use = [&invocation](const RunAndValue& request) -> Status {
    const auto workers = parse_whole_number(request.value);
    if (!workers) {
      return wrong_usage("'" + request.value +
                         "' is not a number of workers; write a whole number, e.g. elastictrain resize 4");
    }
    if (*workers == 0) return wrong_usage("the minimum is 1 worker; to end the run: elastictrain stop");
    invocation.action = [request, workers = *workers] {
      return ask_and_print(request.run, {{"command", "resize"}, {"workers", workers}});
    };
    return {};
  };
  return client_command("resize", "grow or shrink to N workers while training goes on", size, use);
}

}  // namespace elastictrain::cli
