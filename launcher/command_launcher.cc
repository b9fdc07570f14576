#include "launcher/command_launcher.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "launcher/process_launcher.h"
#include "launcher/remote_scripts.h"

namespace elastictrain::launcher {
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
