#include "launcher/batch/batch_launcher.h"

#include <chrono>
#include <utility>

#include "launcher/batch/start_command.h"
#include "launcher/process_launcher.h"

namespace elastictrain::launcher {
namespace {

constexpr int kSrunFailed = 255;  // status of srun's own failures, as SLURM_EXIT_ERROR sets it

}  // namespace

Result<std::unique_ptr<Launcher>> make_batch_launcher(asio::io_context& io, const Allocation& allocation,
                                                      BatchLaunchOptions options, LaunchSink sink,
                                                      AgentProgram program) {
  const std::string tool = start_tool_of(allocation.scheduler);
  if (tool.empty()) {
    return Error{ErrorCode::kInvalid, std::string(name_of(allocation.scheduler)) +
                                          " has no tool that starts agents; use launcher.kind = \"ssh\""};
  }
  LaunchMethod method;
  method.capabilities = {tool, true, false};
  method.parallelism = options.parallelism;
  method.start_timeout = std::chrono::milliseconds(options.start_timeout_ms);
  method.timeout_hint = "is the host up, and may this job use it? Try `" + tool + "` by hand";
  method.failure_status = kSrunFailed;
  method.passes_status_on = allocation.scheduler == Scheduler::kSlurm;
  // Otherwise srun's own failures would look like an agent that exited with 1.
  if (method.passes_status_on) method.environment = {"SLURM_EXIT_ERROR=" + std::to_string(kSrunFailed)};
  method.start_command = [allocation, job_of = options.job_of, path = program.path](const std::string& host) {
    return batch_start_command(allocation, host, job_of(host), path);
  };
  return std::unique_ptr<Launcher>(std::make_unique<ProcessLauncher>(io, std::move(method), std::move(sink)));
}

}  // namespace elastictrain::launcher
