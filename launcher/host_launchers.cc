#include "launcher/host_launchers.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <utility>

#include "launcher/process_launcher.h"
#include "launcher/remote_commands.h"

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

namespace {

constexpr std::string_view kHost = "{host}";

std::vector<std::string> with_script(const CommandLaunchOptions& options, const std::string& host,
                                     const RemoteScript& script) {
  std::vector<std::string> argv = command_for(options.command, host);
  for (std::string& word : script.words()) argv.push_back(std::move(word));
  return argv;
}

// kubectl says nothing else of a program that ended with a status of its own.
std::string without_status_line(const std::string& text) {
  return text.starts_with("command terminated with exit code ") && text.find('\n') == std::string::npos ? "" : text;
}

Status check_command(const CommandLaunchOptions& options) {
  const auto names_host = [](const std::string& word) { return word.find(kHost) != std::string::npos; };
  if (options.command.empty() || options.command.front().empty()) {
    return Error{ErrorCode::kInvalid, "launcher.command names no program"};
  }
  if (std::none_of(options.command.begin(), options.command.end(), names_host)) {
    return Error{ErrorCode::kInvalid, "launcher.command has no {host}, the place of the host's name"};
  }
  return {};
}

}  // namespace

std::vector<std::string> command_for(const std::vector<std::string>& command, const std::string& host) {
  std::vector<std::string> words = command;
  for (std::string& word : words) {
    for (std::size_t at = word.find(kHost); at != std::string::npos; at = word.find(kHost, at + host.size())) {
      word.replace(at, kHost.size(), host);
    }
  }
  return words;
}

Result<std::unique_ptr<Launcher>> make_command_launcher(asio::io_context& io, CommandLaunchOptions options,
                                                        LaunchSink sink, AgentProgram program) {
  if (const Status good = check_command(options); !good.ok()) return good.error();
  const std::string name = std::filesystem::path(options.command.front()).filename().string();
  LaunchMethod method;
  method.capabilities = {name, true, options.copy_binary};
  method.parallelism = options.parallelism;
  method.start_timeout = std::chrono::milliseconds(options.start_timeout_ms);
  method.copy_timeout = std::chrono::milliseconds(options.copy_timeout_ms);
  method.timeout_hint = "does the host exist, and does launcher.command run programs there? Try it by hand";
  method.passes_status_on = false;  // most such tools mix their own statuses with the program's
  method.error_summary = [](const std::string& text) { return without_status_line(last_lines(text)); };
  method.start_command = [options, program](const std::string& host) {
    return with_script(options, host, start_script(program));
  };
  help_without_binary(method, program, options.copy_binary,
                      [options, program](const std::string& host, std::uint64_t bytes) {
                        return with_script(options, host, copy_script(program, bytes, make_nonce()));
                      });
  return std::unique_ptr<Launcher>(std::make_unique<ProcessLauncher>(io, std::move(method), std::move(sink)));
}

}  // namespace elastictrain::launcher
