// `elastictrain topology`: changes the topology of the gradient all-reduce. Training continues during the change.
#include <string>

#include "cli/commands/command.h"
#include "cli/commands/run_and_value.h"
#include "cli/commands/run_client.h"
#include "supervisor/protocol/topology_choice.h"

namespace elastictrain::cli {

Command make_topology(Invocation& invocation) {
  std::string names;
  for (const auto name : protocol::kTopologyNames) names += (names.empty() ? "" : ", ") + std::string(name);
  const std::string shapes = names + ", or the parent of each rank (1,1,1)";
  const ValueArgument shape = {"SHAPE", shapes, "say which topology", "elastictrain topology ring"};
  const auto use = [&invocation, shapes](const RunAndValue& request) -> Status {
    if (!protocol::topology_choice(request.value)) {
      return wrong_usage("'" + request.value + "' is not a topology; write " + shapes);
    }
    invocation.action = [request] {
      return ask_and_print(request.run, {{"command", "topology"}, {"topology", request.value}});
    };
    return {};
  };
  return client_command("topology", "change the topology of the all-reduce while training continues", shape, use);
}

}  // namespace elastictrain::cli
