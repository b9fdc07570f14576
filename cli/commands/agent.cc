// `elastictrain agent`: started by a launcher. It reads everything that it needs from its standard input or from a
// pool's file. Not for users.
#include "launcher/agent/agent.h"

#include <memory>

#include "cli/commands/command.h"

namespace elastictrain::cli {

Command make_agent(Invocation& invocation) {
  const auto how = std::make_shared<launcher::AgentStart>();
  return {"agent",
          "one per host; started by run",
          "",
          {value("--mpi-pool", "FILE", "file with the settings of the ranks of an MPI launch", how->pool_file),
           flag("--outlive-launch", "keep running when the launch command ends", how->outlives_launch)},
          always(invocation, [how] { return launcher::run_agent(*how); })};
}

}  // namespace elastictrain::cli
