#include <algorithm>

#include "launcher/batch/systems.h"

namespace elastictrain::launcher::batch {
namespace {

// Tasks go to hosts in blocks: the first ones get one more if the division leaves a remainder.
std::uint32_t slots_of(std::size_t place, std::uint32_t tasks, std::uint32_t hosts) {
  return std::max<std::uint32_t>(1, tasks / hosts + (place < tasks % hosts ? 1 : 0));
}

}  // namespace

Result<Allocation> read_flux(const BatchSurroundings& around) {
  const auto output = around.run_command({"flux", "hostlist"});
  if (!output) return output.error();
  const auto names = expand_hostlist(output->substr(0, output->find('\n')));
  if (!names) return Error{names.error().code, "flux hostlist: " + names.error().message};
  const auto tasks = read_slots(variable(around, "FLUX_JOB_SIZE"));
  const auto spread_over = read_slots(variable(around, "FLUX_JOB_NNODES"));
  const bool known = tasks && spread_over && *spread_over == names->size();
  HostCollector hosts;
  for (std::size_t place = 0; place < names->size(); ++place) {
    const Status added = hosts.add((*names)[place], known ? slots_of(place, *tasks, *spread_over) : 1);
    if (!added) return Error{added.error().code, "flux hostlist: " + added.error().message};
  }
  const std::string job = variable(around, "FLUX_JOB_ID");
  return Allocation{Scheduler::kFlux,
                    job.empty() ? variable(around, "FLUX_ENCLOSING_ID") : job,
                    hosts.take(),
                    known ? "FLUX_JOB_SIZE" : "one per host",
                    "",
                    !job.empty()};
}

}  // namespace elastictrain::launcher::batch
