// `elastictrain agent`: started by a launcher, told everything over its standard input, or in a pool's file; not for
// people.
#include "launcher/agent/agent.h"

#include <memory>

#include "cli/commands/command.h"

namespace elastictrain::cli {

void add_agent(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("agent", "one per host; started by run");
  const auto how = std::make_shared<launcher::AgentStart>();
  command->group("")->add_option("--mpi-pool", how->pool_file, "what the ranks of an MPI launch are told");
  command->group("")->add_flag("--outlive-launch", how->outlives_launch, "go on when what started it ends");
  command->final_callback([&invocation, how] { invocation.action = [how] { return launcher::run_agent(*how); }; });
}

}  // namespace elastictrain::cli
