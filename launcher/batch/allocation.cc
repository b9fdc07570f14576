#include "launcher/batch/allocation.h"

#include <array>

#include "launcher/batch/allocation_readers.h"

namespace elastictrain::launcher {
namespace {

struct System {
  Scheduler scheduler;
  std::string_view name;
  std::array<const char*, 2> signs;  // variables that only a job of this system has
  Result<Allocation> (*read)(const BatchSurroundings&);
};

// Flux sets different variables in a job's tasks than in a batch script.
constexpr std::array<System, 5> kSystems = {{
    {Scheduler::kSlurm, "slurm", {"SLURM_JOB_ID", "SLURM_JOB_ID"}, batch::read_slurm},
    {Scheduler::kPbs, "pbs", {"PBS_JOBID", "PBS_JOBID"}, batch::read_pbs},
    {Scheduler::kLsf, "lsf", {"LSB_JOBID", "LSB_JOBID"}, batch::read_lsf},
    {Scheduler::kSge, "sge", {"PE_HOSTFILE", "PE_HOSTFILE"}, batch::read_sge},
    {Scheduler::kFlux, "flux", {"FLUX_JOB_ID", "FLUX_ENCLOSING_ID"}, batch::read_flux},
}};

const System* find_system(Scheduler scheduler) {
  for (const System& system : kSystems) {
    if (system.scheduler == scheduler) return &system;
  }
  return nullptr;
}

}  // namespace

namespace batch {

std::string variable(const BatchSurroundings& around, const std::string& name) {
  const auto found = around.variables.find(name);
  return found == around.variables.end() ? std::string() : found->second;
}

Status collect_tokens(std::string_view text, std::string_view separators, HostCollector& hosts) {
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find_first_of(separators));
    text.remove_prefix(word.size() + (word.size() < text.size() ? 1 : 0));
    if (word.empty()) continue;
    const Status added = hosts.add(word, 1);
    if (!added) return added;
  }
  return {};
}

}  // namespace batch

std::string_view name_of(Scheduler scheduler) {
  const System* system = find_system(scheduler);
  return system == nullptr ? "none" : system->name;
}

Scheduler detect_scheduler(const std::map<std::string, std::string>& variables) {
  for (const System& system : kSystems) {
    for (const char* sign : system.signs) {
      const auto found = variables.find(sign);
      if (found != variables.end() && !found->second.empty()) return system.scheduler;
    }
  }
  return Scheduler::kNone;
}

Result<Allocation> read_allocation(Scheduler scheduler, const BatchSurroundings& around) {
  const System* system = find_system(scheduler);
  const auto unusable = [&](const Error& error) {
    return Error{error.code, "the allocation of " + std::string(name_of(scheduler)) + " cannot be read: " +
                                 error.message + "; name hosts yourself (-H, --hostfile) or use --scheduler none"};
  };
  if (system == nullptr) return unusable({ErrorCode::kInvalid, "the batch system is not known"});
  auto allocation = system->read(around);
  if (!allocation) return unusable(allocation.error());
  if (allocation->hosts.empty()) return unusable({ErrorCode::kInvalid, "it names no host"});
  return allocation;
}

}  // namespace elastictrain::launcher
