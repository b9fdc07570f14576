#include "launcher/batch/systems.h"

namespace elastictrain::launcher::batch {

Result<Allocation> read_pbs(const BatchSurroundings& around) {
  const std::string path = variable(around, "PBS_NODEFILE");
  if (path.empty()) return Error{ErrorCode::kInvalid, "PBS_NODEFILE is not set"};
  const auto text = around.read_file(path);
  if (!text) return text.error();
  HostCollector hosts;
  const Status read = collect_tokens(*text, "\r\n", hosts);
  if (!read) return Error{read.error().code, "PBS_NODEFILE: " + read.error().message};
  return Allocation{Scheduler::kPbs, variable(around, "PBS_JOBID"), hosts.take(), "lines of PBS_NODEFILE", ""};
}

}  // namespace elastictrain::launcher::batch
