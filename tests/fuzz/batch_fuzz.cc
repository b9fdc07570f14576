// Host lists of batch systems, with any content: accepted values must be safe in a command's arguments.
#include <cstdint>
#include <string>

#include "launcher/batch/allocation.h"
#include "launcher/batch/hostlist.h"
#include "launcher/hostfile.h"
#include "tests/fuzz/check.h"

namespace {

using namespace elastictrain;
using namespace elastictrain::launcher;

void look(const Result<Allocation>& allocation) {
  if (!allocation) return fuzz::check(!allocation.error().message.empty(), "hosts are refused without a word");
  fuzz::check(!allocation->hosts.empty() && allocation->hosts.size() <= kMaxAllocatedHosts,
              "hosts beyond their number");
  for (const Host& host : allocation->hosts) {
    fuzz::check(is_host_name(host.name), "a name that is none was accepted");
    fuzz::check(host.slots >= 1 && host.slots <= kMaxSlotsPerHost, "slots beyond their range were accepted");
  }
}

}  // namespace

// The first line is used as a host list, the second as counts; the whole input as every file.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::string first = text.substr(0, text.find('\n'));
  const std::string rest = first.size() < text.size() ? text.substr(first.size() + 1) : std::string();
  const std::string second = rest.substr(0, rest.find('\n'));
  const BatchSurroundings around{{{"SLURM_JOB_NODELIST", first},
                                  {"SLURM_NTASKS", "1"},
                                  {"SLURM_TASKS_PER_NODE", second},
                                  {"SLURM_GPUS_PER_NODE", second},
                                  {"PBS_NODEFILE", "file"},
                                  {"PE_HOSTFILE", "file"},
                                  {"LSB_MCPU_HOSTS", first},
                                  {"FLUX_JOB_SIZE", second}},
                                 [&](const std::string&) { return Result<std::string>(text); },
                                 [&](const std::vector<std::string>&) { return Result<std::string>(text); }};
  for (const auto scheduler :
       {Scheduler::kSlurm, Scheduler::kPbs, Scheduler::kLsf, Scheduler::kSge, Scheduler::kFlux}) {
    look(read_allocation(scheduler, around));
  }
  return 0;
}
