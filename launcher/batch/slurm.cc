#include <algorithm>
#include <optional>

#include "launcher/batch/systems.h"

namespace elastictrain::launcher::batch {
namespace {

using Counts = std::vector<std::uint32_t>;

struct Slots {
  Counts per_host;
  std::string from;
};

// A variable with one count per host. A step has its own variables, which do not match the job's hosts.
Result<std::optional<Counts>> counts_of(const BatchSurroundings& around, const std::string& name, std::size_t hosts) {
  const std::string text = variable(around, name);
  if (text.empty()) return std::optional<Counts>();
  auto counts = expand_counts(text);
  if (!counts) return Error{counts.error().code, name + ": " + counts.error().message};
  if (counts->size() == hosts) return std::optional<Counts>(std::move(*counts));
  if (!variable(around, "SLURM_STEP_ID").empty()) return std::optional<Counts>();
  return Error{ErrorCode::kInvalid,
               name + " covers " + std::to_string(counts->size()) + " hosts, not " + std::to_string(hosts)};
}

// "4", "a100:4", "tesla:2,kepler:1".
std::uint32_t count_gpus(const std::string& text) {
  std::uint32_t sum = 0;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view item = std::string_view(text).substr(begin, end - begin);
    const auto count = read_slots(item.substr(item.rfind(':') + 1));
    if (count) sum += *count;
    begin = end + 1;
  }
  return sum;
}

std::optional<Slots> gpu_slots(const BatchSurroundings& around, std::size_t hosts) {
  for (const char* name : {"SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"}) {
    const std::uint32_t gpus = count_gpus(variable(around, name));
    if (gpus > 0) return Slots{Counts(hosts, gpus), name};
  }
  return std::nullopt;
}

// For jobs that request CPUs with `-c`, without a number of tasks.
Result<std::optional<Slots>> cpu_slots(const BatchSurroundings& around, std::size_t hosts) {
  const auto per_task = read_slots(variable(around, "SLURM_CPUS_PER_TASK"));
  if (!per_task) return std::optional<Slots>();
  auto cpus = counts_of(around, "SLURM_JOB_CPUS_PER_NODE", hosts);
  if (!cpus) return cpus.error();
  if (!*cpus) return std::optional<Slots>();
  for (std::uint32_t& count : **cpus) count = std::max<std::uint32_t>(1, count / *per_task);
  return std::optional<Slots>(Slots{std::move(**cpus), "SLURM_JOB_CPUS_PER_NODE and SLURM_CPUS_PER_TASK"});
}

Result<Slots> choose_slots(const BatchSurroundings& around, std::size_t hosts) {
  auto tasks = counts_of(around, "SLURM_TASKS_PER_NODE", hosts);
  if (!tasks) return tasks.error();
  const bool asked = !variable(around, "SLURM_NTASKS").empty() || !variable(around, "SLURM_NTASKS_PER_NODE").empty();
  const bool counts = asked && tasks->has_value();
  const bool several = counts && std::any_of((*tasks)->begin(), (*tasks)->end(), [](auto count) { return count > 1; });
  if (several) return Slots{std::move(**tasks), "SLURM_TASKS_PER_NODE"};
  if (auto gpus = gpu_slots(around, hosts)) return std::move(*gpus);
  if (counts) return Slots{std::move(**tasks), "SLURM_TASKS_PER_NODE"};
  auto cpus = cpu_slots(around, hosts);
  if (!cpus) return cpus.error();
  if (*cpus) return std::move(**cpus);
  return Slots{Counts(hosts, 1), "one per host"};
}

}  // namespace

Result<Allocation> read_slurm(const BatchSurroundings& around) {
  const auto names = expand_hostlist(variable(around, "SLURM_JOB_NODELIST"));
  if (!names) return Error{names.error().code, "SLURM_JOB_NODELIST: " + names.error().message};
  auto slots = choose_slots(around, names->size());
  if (!slots) return slots.error();
  HostCollector hosts;
  for (std::size_t i = 0; i < names->size(); ++i) {
    const Status added = hosts.add((*names)[i], slots->per_host[i]);
    if (!added) return Error{added.error().code, "SLURM_JOB_NODELIST: " + added.error().message};
  }
  return Allocation{Scheduler::kSlurm, variable(around, "SLURM_JOB_ID"), hosts.take(), slots->from,
                    variable(around, "SLURMD_NODENAME")};
}

}  // namespace elastictrain::launcher::batch
