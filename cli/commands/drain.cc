// `elastictrain drain`: moves every worker off a host.
#include <memory>
#include <vector>

#include "cli/commands/beside.h"
#include "cli/commands/command.h"
#include "cli/commands/run_and_value.h"

namespace elastictrain::cli {

void add_drain(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("drain", "move every worker off a host");
  const auto words = std::make_shared<std::vector<std::string>>();
  command->group(kGroupBeside);
  command->add_option("words", *words, "[name of the run] and the host")
      ->required()
      ->expected(1, 2)
      ->type_name("[NAME] HOST");
  command->final_callback([&invocation, words] {
    const RunAndValue request = run_and_value(*words);
    invocation.action = [request] {
      return ask_and_print(request.run, {{"command", "drain"}, {"host", request.value}});
    };
  });
}

}  // namespace elastictrain::cli
