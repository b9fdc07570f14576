// `elastictrain agent`: started by a launcher, told everything over its standard input, or in a pool's file; not for
// people.
#include "launcher/agent/agent.h"

#include <memory>
#include <string>

#include "cli/commands/command.h"

namespace elastictrain::cli {

void add_agent(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("agent", "one per host; started by run");
  const auto pool_file = std::make_shared<std::string>();
  command->group("")->add_option("--mpi-pool", *pool_file, "what the ranks of an MPI launch are told");
  command->final_callback(
      [&invocation, pool_file] { invocation.action = [pool_file] { return launcher::run_agent(*pool_file); }; });
}

}  // namespace elastictrain::cli
