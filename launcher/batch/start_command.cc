#include "launcher/batch/start_command.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace elastictrain::launcher {
namespace {

using Arguments = std::vector<std::string>;

// One task that shares the whole host with the batch script: without `overlap` it would wait for resources that the
// script's own step holds, and with a binding its workers would share the core of one task. A lost host or a failed
// agent must not end what runs on the others.
Arguments srun(const std::string& host) {
  return {
      "srun",       "--nodes=1",       "--ntasks=1", "--nodelist=" + host,   "--overlap", "--mem=0",
      "--mpi=none", "--cpu-bind=none", "--wait=0",   "--kill-on-bad-exit=0", "--quiet",   "--job-name=elastictrain"};
}

// Brokers and shells are numbered in the order of the host list.
Arguments flux_exec(const Allocation& allocation, const std::string& host) {
  const auto place = std::find_if(allocation.hosts.begin(), allocation.hosts.end(),
                                  [&](const Host& known) { return known.name == host; });
  Arguments arguments{"flux", "exec", "--rank=" + std::to_string(place - allocation.hosts.begin())};
  if (allocation.within_task) arguments.push_back("--jobid=" + allocation.job_id);
  return arguments;
}

Arguments tool_arguments(const Allocation& allocation, const std::string& host) {
  switch (allocation.scheduler) {
    case Scheduler::kSlurm:
      return srun(host);
    case Scheduler::kLsf:
      return {"blaunch", host};
    case Scheduler::kSge:
      return {"qrsh", "-inherit", host};
    case Scheduler::kFlux:
      return flux_exec(allocation, host);
    case Scheduler::kNone:
    case Scheduler::kPbs:
      break;
  }
  return {};
}

}  // namespace

std::string start_tool_of(Scheduler scheduler) {
  Allocation any;
  any.scheduler = scheduler;
  const Arguments arguments = tool_arguments(any, "");
  return arguments.empty() ? std::string() : arguments.front();
}

bool is_in_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const std::string directory(rest.substr(0, rest.find(':')));
    rest.remove_prefix(std::min(directory.size() + 1, rest.size()));
    if (::access((directory + "/" + program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

std::vector<std::string> batch_start_command(const Allocation& allocation, const std::string& host,
                                             const std::string& job, const std::string& program) {
  Arguments arguments = tool_arguments(allocation, host);
  if (!job.empty() && allocation.scheduler == Scheduler::kSlurm) arguments.push_back("--jobid=" + job);
  arguments.insert(arguments.end(), {program, "agent"});
  return arguments;
}

}  // namespace elastictrain::launcher
