#include "launcher/batch/allocation_readers.h"

#include <algorithm>
#include <optional>

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

namespace {

// "hostA 2 hostB 1"
Status collect_pairs(std::string_view text, HostCollector& hosts) {
  const auto next_word = [&text] {
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(word.size());
    return word;
  };
  for (std::string_view name = next_word(); !name.empty(); name = next_word()) {
    const auto slots = read_slots(next_word());
    if (!slots) return slots.error();
    const Status added = hosts.add(name, *slots);
    if (!added) return added;
  }
  return {};
}

Status collect_hosts(const BatchSurroundings& around, const std::string& source, HostCollector& hosts) {
  const std::string value = variable(around, source);
  if (source == "LSB_MCPU_HOSTS") return collect_pairs(value, hosts);
  if (source == "LSB_HOSTS") return collect_tokens(value, " ", hosts);
  const auto text = around.read_file(value);
  return text ? collect_tokens(*text, "\r\n", hosts) : Status(text.error());
}

}  // namespace

Result<Allocation> read_lsf(const BatchSurroundings& around) {
  for (const std::string source : {"LSB_DJOB_HOSTFILE", "LSB_MCPU_HOSTS", "LSB_HOSTS"}) {
    if (variable(around, source).empty()) continue;
    HostCollector hosts;
    const Status read = collect_hosts(around, source, hosts);
    if (!read) return Error{read.error().code, source + ": " + read.error().message};
    return Allocation{Scheduler::kLsf, variable(around, "LSB_JOBID"), hosts.take(), source, ""};
  }
  return Error{ErrorCode::kInvalid, "neither LSB_DJOB_HOSTFILE nor LSB_MCPU_HOSTS nor LSB_HOSTS is set"};
}

namespace {

// The first two fields of a line: host and slots.
Status collect_line(std::string_view line, HostCollector& hosts) {
  constexpr std::string_view kSpaces = " \t";
  const std::size_t end = std::min(line.find_first_of(kSpaces), line.size());
  std::string_view rest = line.substr(end);
  rest.remove_prefix(std::min(rest.find_first_not_of(kSpaces), rest.size()));
  const auto slots = read_slots(rest.substr(0, rest.find_first_of(kSpaces)));
  return slots ? hosts.add(line.substr(0, end), *slots) : Status(slots.error());
}

}  // namespace

Result<Allocation> read_sge(const BatchSurroundings& around) {
  const auto text = around.read_file(variable(around, "PE_HOSTFILE"));
  if (!text) return text.error();
  HostCollector hosts;
  for (std::string_view rest = *text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find_first_of("\r\n"));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.empty()) continue;
    const Status added = collect_line(line, hosts);
    if (!added) return Error{added.error().code, "PE_HOSTFILE: " + added.error().message};
  }
  return Allocation{Scheduler::kSge, variable(around, "JOB_ID"), hosts.take(), "PE_HOSTFILE", ""};
}

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
