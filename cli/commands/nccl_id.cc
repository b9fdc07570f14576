// `elastictrain nccl-id N`: makes unique ids of NCCL for the worker that started it, and ends with it. Not for users.
#include <memory>

#include "cli/commands/command.h"
#include "train/comm/nccl/unique_id_helper.h"

namespace elastictrain::cli {

void add_nccl_id(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("nccl-id", "make unique ids of NCCL; started by workers");
  command->group("");
  const auto count = std::make_shared<std::size_t>(1);
  command->add_option("count", *count, "number of ids")->required();
  command->final_callback(
      [&invocation, count] { invocation.action = [count] { return comm::run_unique_id_helper(*count); }; });
}

}  // namespace elastictrain::cli
