// `elastictrain nccl-id N`: makes unique ids of NCCL for the worker that started it, and ends with it. Not for users.
#include <memory>

#include "cli/commands/command.h"
#include "cli/config/text.h"
#include "train/comm/nccl/unique_id_helper.h"

namespace elastictrain::cli {

Command make_nccl_id(Invocation& invocation) {
  const auto count = std::make_shared<std::string>();
  Argument number = word("count", "N", "number of ids", *count);
  number.kind = Argument::Kind::kNeeded;
  const auto choose = [&invocation, count]() -> Status {
    const auto ids = parse_whole_number(*count);
    if (!ids) return wrong_usage("'" + *count + "' is not a number of ids");
    invocation.action = [ids = *ids] { return comm::run_unique_id_helper(ids); };
    return {};
  };
  return {"nccl-id", "make unique ids of NCCL; started by workers", "", {number}, choose};
}

}  // namespace elastictrain::cli
