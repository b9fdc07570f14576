#include "launcher/ssh_launcher.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "launcher/process_launcher.h"
#include "launcher/remote_scripts.h"

namespace elastictrain::launcher {
namespace {

// What to try by hand, where the host has answered.
std::string advice_about(const SshOptions& options, const std::string& host, const std::string& text) {
  if (text.find("Permission denied") == std::string::npos) return "";
  std::string command = options.program + " -o BatchMode=yes";
  if (!options.user.empty()) command += " -l " + options.user;
  if (options.port != 0) command += " -p " + std::to_string(options.port);
  if (!options.identity_file.empty()) command += " -i " + options.identity_file;
  return "; the host answers, but does not let you in with this key and user; try: " + command + " " + host + " true";
}

// Refused or reset connections and hosts without a route are what a machine that boots, and an sshd that limits its
// unauthenticated connections, look like.
bool may_pass(const std::string& text) {
  constexpr const char* kLasting[] = {"Permission denied", "Host key verification failed", "Could not resolve hostname",
                                      "Too many authentication failures", "Bad configuration option"};
  return std::none_of(std::begin(kLasting), std::end(kLasting),
                      [&](const char* sign) { return text.find(sign) != std::string::npos; });
}

}  // namespace

Result<std::unique_ptr<Launcher>> make_ssh_launcher(asio::io_context& io, SshOptions options, LaunchSink sink,
                                                    AgentProgram program) {
  const Status checked = check_ssh_options(options);
  if (!checked) return checked.error();
  LaunchMethod method;
  method.capabilities = {"ssh", true, options.copy_binary};
  method.parallelism = options.parallelism;
  method.start_timeout = std::chrono::milliseconds(options.start_timeout_ms);
  method.copy_timeout = std::chrono::milliseconds(options.copy_timeout_ms);
  method.slow_after = std::min(method.slow_after, std::chrono::milliseconds(options.connect_timeout_ms));
  method.timeout_hint = "the name service, the network or the host hangs; try `ssh HOST true`";
  method.advice = [options](const std::string& host, const std::string& text) {
    return advice_about(options, host, text);
  };
  method.is_passing = may_pass;
  method.start_command = [options, program](const std::string& host) {
    return ssh_start_command(options, host, program);
  };
  help_without_binary(method, program, options.copy_binary,
                      [options, program](const std::string& host, std::uint64_t bytes) {
                        return ssh_copy_command(options, host, program, bytes, make_nonce());
                      });
  return std::unique_ptr<Launcher>(std::make_unique<ProcessLauncher>(io, std::move(method), std::move(sink)));
}

}  // namespace elastictrain::launcher
