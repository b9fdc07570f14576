// `elastictrain resize`: requests another number of workers. Training continues during the change.
#include <memory>
#include <vector>

#include "cli/commands/beside.h"
#include "cli/commands/command.h"
#include "cli/commands/run_and_value.h"
#include "cli/config/text.h"

namespace elastictrain::cli {

void add_resize(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("resize", "grow or shrink to N workers while training goes on");
  const auto words = std::make_shared<std::vector<std::string>>();
  command->group(kGroupBeside);
  command->add_option("words", *words, "[name of the run] and the number of workers")
      ->required()
      ->expected(1, 2)
      ->type_name("[NAME] N");
  command->final_callback([&invocation, words] {
    const RunAndValue request = run_and_value(*words);
    const auto workers = parse_whole_number(request.value);
    if (!workers) throw CLI::ValidationError("N", "'" + request.value + "' is not a number of workers");
    invocation.action = [request, workers = *workers] {
      return ask_and_print(request.run, {{"command", "resize"}, {"workers", workers}});
    };
  });
}

}  // namespace elastictrain::cli
