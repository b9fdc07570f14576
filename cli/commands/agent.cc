// `elastictrain agent`: started by a launcher. It reads everything that it needs from its standard input or from a
// pool's file. Not for users.
#include "launcher/agent/agent.h"

#include <memory>

#include "cli/commands/command.h"

namespace elastictrain::cli {

void add_agent(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("agent", "one per host; started by run");
  const auto how = std::make_shared<launcher::AgentStart>();
  command->group("")->add_option("--mpi-pool", how->pool_file, "file with the settings of the ranks of an MPI launch");
  command->group("")->add_flag("--outlive-launch", how->outlives_launch, "keep running when the launch command ends");
  command->final_callback([&invocation, how] { invocation.action = [how] { return launcher::run_agent(*how); }; });
}

}  // namespace elastictrain::cli
