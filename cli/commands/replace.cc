// `elastictrain replace`: starts a new worker for a rank, or moves the workers of a host elsewhere.
#include <memory>
#include <vector>

#include "cli/commands/beside.h"
#include "cli/commands/command.h"
#include "cli/commands/run_and_value.h"
#include "cli/config/text.h"

namespace elastictrain::cli {

void add_replace(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("replace", "a new worker takes the place of a rank, or of those on a host");
  const auto words = std::make_shared<std::vector<std::string>>();
  command->group(kGroupBeside);
  command->add_option("words", *words, "[name of the run] and the rank or the host")
      ->required()
      ->expected(1, 2)
      ->type_name("[NAME] RANK|HOST");
  command->final_callback([&invocation, words] {
    const RunAndValue request = run_and_value(*words);
    nlohmann::json order = {{"command", "replace"}};
    if (const auto rank = parse_whole_number(request.value)) {
      order["rank"] = *rank;
    } else {
      order["host"] = request.value;
    }
    invocation.action = [request, order] { return ask_and_print(request.run, order); };
  });
}

}  // namespace elastictrain::cli
