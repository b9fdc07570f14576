// Purpose: the common implementation of every launcher that reaches a host by running one command on this machine
// (fork/exec, ssh, a batch system's tool, mpirun): queueing within the parallelism, the bootstrap over stdin, the copy
// of a missing binary, the tool's own messages when it fails, and the clean end. A way is data: a LaunchMethod.
//
// Ownership: the launcher owns its commands; destroying it ends them. Thread: the io_context's thread.
// Errors: exactly one LaunchEnded per launch().
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "launcher/agent_program.h"
#include "launcher/launcher.h"
#include "launcher/process/command.h"
#include "launcher/text.h"

namespace elastictrain::launcher {

struct LaunchMethod {
  Capabilities capabilities;
  std::uint32_t parallelism = 1;
  std::chrono::milliseconds start_timeout{30'000};
  std::chrono::milliseconds slow_after{3'000};  // a slower launch does not keep others from starting
  std::chrono::milliseconds copy_timeout{120'000};
  bool is_agent = false;  // the command is the agent itself: processes that its session leaves behind are killed
  // The tool's exit status if the tool itself failed; any other one is the agent's own, 128 + s for a signal.
  int failure_status = 255;
  // False: only exit status 0 says anything about the agent (a batch system's tool mixes its own with the agent's).
  bool passes_status_on = true;
  std::vector<std::string> environment;  // "NAME=value" for the command, added to our own
  std::function<std::vector<std::string>(const std::string& host)> start_command;
  // Used once per launch after kNoBinaryStatus, with `copy_source` as standard input; empty: the binary is not copied.
  std::function<std::vector<std::string>(const std::string& host)> copy_command;
  std::string copy_source;
  std::function<std::string(const std::string& text)> error_summary =
      last_lines;  // from its standard error, for messages
  // What to do about this error text of the tool, for the end of a message; empty: nothing is known.
  std::function<std::string(const std::string& host, const std::string& text)> advice =
      [](const std::string&, const std::string&) { return std::string(); };
  // Whether the tool may succeed later that failed with this text.
  std::function<bool(const std::string& text)> is_passing = [](const std::string&) { return false; };
  std::string no_binary_hint;  // what to do if there is no binary and none is copied
  std::string timeout_hint;    // possible causes if the tool hangs without output
};

// Where a tool starts the scripts of remote_commands.h: what helps a host without the binary. `copy` is the command
// that stores so many bytes there; it is used if `copy_binary` is set and this binary can be read.
void help_without_binary(LaunchMethod& method, const AgentProgram& program, bool copy_binary,
                         std::function<std::vector<std::string>(const std::string& host, std::uint64_t bytes)> copy);

class ProcessLauncher : public Launcher {
 public:
  ProcessLauncher(asio::io_context& io, LaunchMethod method, LaunchSink sink);
  ~ProcessLauncher() override;

  Capabilities capabilities() const override { return method_.capabilities; }
  void launch(AgentSpec spec) override;
  void forget(AgentId agent) override;
  std::vector<std::string> command_line(const std::string& host) const override { return method_.start_command(host); }

 private:
  struct Launch {
    AgentSpec spec;
    std::shared_ptr<Command> command;
    bool said = false;         // something on standard output, before the agent had connected
    bool connected = false;    // the agent has reached the supervisor
    bool agent_ended = false;  // afterwards: its process, not only the tool that represents it
    bool copied = false;
    bool forgotten = false;
    bool may_work_later = false;
    bool holds_slot = false;  // counts against the parallelism
    std::unique_ptr<asio::steady_timer> slow_timer;
  };
  using LaunchPtr = std::shared_ptr<Launch>;

  void start_queued();
  void start(const LaunchPtr& launch);
  void copy_binary(const LaunchPtr& launch);
  void run(const LaunchPtr& launch, CommandSpec spec, Command::LineHandler on_line,
           void (ProcessLauncher::*on_end)(const LaunchPtr&, const CommandEnd&));
  void saw_line(const LaunchPtr& launch, const std::string& line);
  void agent_ended(const LaunchPtr& launch, const CommandEnd& end);
  void copy_ended(const LaunchPtr& launch, const CommandEnd& end);
  void report(const LaunchPtr& launch, ExitStatus status, std::string message);
  std::string explain(const Launch& launch, const CommandEnd& end) const;
  void take_slot(const LaunchPtr& launch);
  void release_slot(const LaunchPtr& launch);

  asio::io_context& io_;
  LaunchMethod method_;
  LaunchSink sink_;
  std::deque<LaunchPtr> queue_;
  std::unordered_map<AgentId, LaunchPtr> launches_;  // including queued ones
  std::uint32_t starting_ = 0;
  std::shared_ptr<char> life_ = std::make_shared<char>();  // callbacks that come too late find it expired
};

}  // namespace elastictrain::launcher
