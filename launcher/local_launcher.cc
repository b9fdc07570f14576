#include "launcher/local_launcher.h"

#include <chrono>
#include <utility>

#include "launcher/process_launcher.h"

namespace elastictrain::launcher {
namespace {

constexpr std::uint32_t kLocalParallelism = 16;

}  // namespace

std::unique_ptr<Launcher> make_local_launcher(asio::io_context& io, LaunchSink sink, AgentProgram program,
                                              std::uint64_t start_timeout_ms) {
  LaunchMethod method;
  method.capabilities = {"the local agent", false, false};
  method.parallelism = kLocalParallelism;
  method.start_timeout = std::chrono::milliseconds(start_timeout_ms);
  method.is_agent = true;
  method.timeout_hint = "is this machine overloaded?";
  method.start_command = [path = program.path](const std::string&) { return std::vector<std::string>{path, "agent"}; };
  return std::make_unique<ProcessLauncher>(io, std::move(method), std::move(sink));
}

}  // namespace elastictrain::launcher
