// `elastictrain topology`: changes the topology of the gradient all-reduce. Training continues during the change.
#include <memory>
#include <string>
#include <vector>

#include "cli/commands/beside.h"
#include "cli/commands/command.h"
#include "cli/commands/run_and_value.h"
#include "supervisor/protocol/topology_choice.h"

namespace elastictrain::cli {

void add_topology(CLI::App& app, Invocation& invocation) {
  std::string names;
  for (const auto name : protocol::kTopologyNames) names += (names.empty() ? "" : ", ") + std::string(name);
  CLI::App* command = app.add_subcommand("topology", "change the topology of the all-reduce while training continues");
  const auto words = std::make_shared<std::vector<std::string>>();
  command->group(kGroupBeside);
  command->add_option("words", *words, "[name of the run] and " + names + ", or every rank's parent (1,1,1)")
      ->required()
      ->expected(1, 2)
      ->type_name("[NAME] SHAPE");
  command->final_callback([&invocation, words, names] {
    const RunAndValue request = run_and_value(*words);
    if (!protocol::topology_choice(request.value)) {
      throw CLI::ValidationError("SHAPE", "'" + request.value + "' is not a topology; the topologies are " + names);
    }
    invocation.action = [request] {
      return ask_and_print(request.run, {{"command", "topology"}, {"topology", request.value}});
    };
  });
}

}  // namespace elastictrain::cli
