#include "launcher/process_launcher.h"

#include <signal.h>

#include <algorithm>
#include <asio/error_code.hpp>
#include <asio/post.hpp>
#include <filesystem>
#include <utility>

#include "launcher/agent_program.h"
#include "supervisor/protocol/codec.h"
#include "supervisor/protocol/host_name.h"

namespace elastictrain::launcher {
namespace {

constexpr int kNotStarted = 127;

// A shell between the tool and the agent exits with 128 + s for a signal.
ExitStatus agent_status(const ExitStatus& status) {
  const int number = status.exit_code - 128;
  return status.signal == 0 && number > 0 && number < NSIG ? ExitStatus{0, number} : status;
}

}  // namespace

void help_without_binary(LaunchMethod& method, const AgentProgram& program, bool copy_binary,
                         std::function<std::vector<std::string>(const std::string& host, std::uint64_t bytes)> copy) {
  method.no_binary_hint = "there is no elastictrain " + program.build_id + " at " + program.path +
                          " or in ~/.cache/elastictrain; install it there or let it be copied (copy_binary)";
  std::error_code failed;
  const std::uint64_t bytes = std::filesystem::file_size(program.path, failed);
  if (!copy_binary || failed) return;
  method.copy_source = program.path;
  method.copy_command = [copy = std::move(copy), bytes](const std::string& host) { return copy(host, bytes); };
}

ProcessLauncher::ProcessLauncher(asio::io_context& io, LaunchMethod method, LaunchSink sink)
    : io_(io), method_(std::move(method)), sink_(std::move(sink)) {}

ProcessLauncher::~ProcessLauncher() {
  for (const auto& [agent, launch] : launches_) {
    if (launch->command) launch->command->terminate();
  }
}

void ProcessLauncher::launch(AgentSpec spec) {
  auto launch = std::make_shared<Launch>();
  launch->spec = std::move(spec);
  launches_[launch->spec.agent] = launch;
  queue_.push_back(std::move(launch));
  start_queued();
}

// Started from the loop, so that no result reaches the sink before launch() has returned.
void ProcessLauncher::start_queued() {
  asio::post(io_, [this, life = std::weak_ptr<char>(life_)] {
    if (life.expired()) return;
    while (!queue_.empty() && starting_ < method_.parallelism) {
      const LaunchPtr next = queue_.front();
      queue_.pop_front();
      start(next);
    }
  });
}

// Hosts that a cluster or a script has named become words of a command line here, whatever the tool.
void ProcessLauncher::start(const LaunchPtr& launch) {
  if (!protocol::is_host_name(launch->spec.host)) {
    return report(launch, {kNotStarted, 0}, "\"" + launch->spec.host + "\" is not a host name: nothing was started");
  }
  take_slot(launch);
  launch->slow_timer = std::make_unique<asio::steady_timer>(io_, method_.slow_after);
  launch->slow_timer->async_wait([this, launch, life = std::weak_ptr<char>(life_)](const asio::error_code& error) {
    if (!error && !life.expired()) release_slot(launch);
  });
  CommandSpec spec;
  spec.argv = method_.start_command(launch->spec.host);
  spec.environment = method_.environment;
  spec.input = protocol::encode_frame(protocol::Bootstrap(launch->spec.bootstrap));
  spec.keep_output = false;
  spec.sweep_session = method_.is_agent;
  // An agent takes TERM for the shutdown of its host and lets its workers leave.
  if (method_.is_agent) spec.stop_signal = SIGINT;
  spec.deadline = method_.start_timeout;
  const auto on_line = [this, launch, life = std::weak_ptr<char>(life_)](const std::string& line) {
    if (!life.expired()) saw_line(launch, line);
  };
  run(launch, std::move(spec), on_line, &ProcessLauncher::agent_ended);
}

void ProcessLauncher::copy_binary(const LaunchPtr& launch) {
  launch->copied = true;
  launch->slow_timer.reset();
  take_slot(launch);
  CommandSpec spec;
  spec.argv = method_.copy_command(launch->spec.host);
  spec.input_file = method_.copy_source;
  spec.deadline = method_.copy_timeout;
  run(launch, std::move(spec), nullptr, &ProcessLauncher::copy_ended);
}

void ProcessLauncher::run(const LaunchPtr& launch, CommandSpec spec, Command::LineHandler on_line,
                          void (ProcessLauncher::*on_end)(const LaunchPtr&, const CommandEnd&)) {
  const auto ended = [this, launch, on_end, life = std::weak_ptr<char>(life_)](const CommandEnd& end) {
    if (!life.expired()) (this->*on_end)(launch, end);
  };
  auto command = Command::start(io_, std::move(spec), std::move(on_line), ended);
  if (command) {
    launch->command = std::move(*command);
    return;
  }
  release_slot(launch);
  report(launch, {kNotStarted, 0}, command.error().message);
}

void ProcessLauncher::saw_line(const LaunchPtr& launch, const std::string& line) {
  if (launch->connected) return;
  if (line.find(kConnectedLine) == std::string::npos) {
    launch->said = true;
    return;
  }
  launch->connected = true;
  launch->command->clear_deadline();
  release_slot(launch);
}

void ProcessLauncher::agent_ended(const LaunchPtr& launch, const CommandEnd& end) {
  launch->command.reset();
  const bool no_binary = end.status.signal == 0 && end.status.exit_code == kNoBinaryStatus && !launch->connected;
  const bool may_copy = method_.copy_command != nullptr && !launch->copied && !launch->forgotten;
  if (no_binary && may_copy) return copy_binary(launch);
  release_slot(launch);
  const bool is_silent = !method_.passes_status_on && end.status.exit_code != 0;
  const bool own_failure = end.status.signal != 0 || end.status.exit_code == method_.failure_status || is_silent;
  launch->agent_ended = launch->connected && (method_.is_agent || !own_failure);
  launch->may_work_later = end.status.signal != 0 || end.timed_out ||
                           (end.status.exit_code == method_.failure_status && method_.is_passing(end.error_text));
  CommandEnd reported = end;
  if (launch->agent_ended && !method_.is_agent) reported.status = agent_status(end.status);
  report(launch, reported.status, explain(*launch, reported));
}

void ProcessLauncher::copy_ended(const LaunchPtr& launch, const CommandEnd& end) {
  launch->command.reset();
  const bool good = end.status.signal == 0 && end.status.exit_code == 0 && !end.timed_out;
  if (good && !launch->forgotten) return start(launch);
  release_slot(launch);
  report(launch, end.status, "copying elastictrain there: " + explain(*launch, end));
}

void ProcessLauncher::take_slot(const LaunchPtr& launch) {
  if (!std::exchange(launch->holds_slot, true)) ++starting_;
}

void ProcessLauncher::release_slot(const LaunchPtr& launch) {
  launch->slow_timer.reset();
  if (!std::exchange(launch->holds_slot, false)) return;
  --starting_;
  start_queued();
}

std::string ProcessLauncher::explain(const Launch& launch, const CommandEnd& end) const {
  const std::string error_summary = method_.error_summary(end.error_text);
  std::string message;
  if (launch.forgotten) {
    message += "stopped on request";
  } else if (end.timed_out) {
    message += method_.capabilities.name + " did not finish in time";
    if (error_summary.empty()) message += ": " + method_.timeout_hint;
  } else if (end.status.signal == 0 && end.status.exit_code == kNoBinaryStatus && error_summary.empty()) {
    return message + method_.no_binary_hint;
  } else {
    message += (launch.agent_ended ? "its agent" : method_.capabilities.name) + " ended with " + describe(end.status);
  }
  const bool is_its_own = end.timed_out || (end.status.signal == 0 && end.status.exit_code == method_.failure_status);
  if (!error_summary.empty())
    return message + ": " + error_summary + (is_its_own ? method_.advice(launch.spec.host, end.error_text) : "");
  // A login shell that starts nothing says why on standard output. Not quoted: a menu may repeat its input, which is
  // the run's key.
  const bool is_refused = launch.said && !is_its_own && !launch.connected && !launch.forgotten;
  return message + (is_refused ? "; to see what it wrote to standard output, log in there by hand" : "");
}

void ProcessLauncher::report(const LaunchPtr& launch, ExitStatus status, std::string message) {
  const auto place = launches_.find(launch->spec.agent);
  if (place != launches_.end() && place->second == launch) launches_.erase(place);
  const bool may_work_later = launch->may_work_later && !launch->connected && !launch->forgotten;
  sink_({launch->spec.agent, launch->connected, status.exit_code, status.signal, std::move(message),
         launch->agent_ended, may_work_later});
}

void ProcessLauncher::forget(AgentId agent) {
  const auto place = launches_.find(agent);
  if (place == launches_.end()) return;
  const LaunchPtr launch = place->second;
  launch->forgotten = true;
  if (launch->command) return launch->command->terminate();
  const auto queued = std::find(queue_.begin(), queue_.end(), launch);
  if (queued == queue_.end()) return;
  queue_.erase(queued);
  asio::post(io_, [this, launch, life = std::weak_ptr<char>(life_)] {
    if (!life.expired()) report(launch, {}, "stopped on request before it was started");
  });
}

}  // namespace elastictrain::launcher
