// `elastictrain resize`: requests another number of workers. Training continues during the change.
#include "cli/commands/beside.h"
#include "cli/commands/command.h"
#include "cli/commands/run_and_value.h"
#include "cli/config/text.h"

namespace elastictrain::cli {

void add_resize(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("resize", "grow or shrink to N workers while training goes on");
  command->group(kGroupBeside);
  const ValueArgument size = {"N", "number of workers", "say how many workers", "elastictrain resize 4"};
  add_run_and_value(*command, size, [&invocation](const RunAndValue& request) {
    const auto workers = parse_whole_number(request.value);
    if (!workers) {
      throw CLI::ValidationError("'" + request.value +
                                 "' is not a number of workers; write a whole number, e.g. elastictrain resize 4");
    }
    if (*workers == 0) {
      throw CLI::ValidationError("the minimum is 1 worker; to end the run: elastictrain stop");
    }
    invocation.action = [request, workers = *workers] {
      return ask_and_print(request.run, {{"command", "resize"}, {"workers", workers}});
    };
  });
}

}  // namespace elastictrain::cli
