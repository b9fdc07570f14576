// Purpose: answers to the supervisor's questions about a worker of this host, with the capture of a process's
// stacks.
#pragma once

#include <sys/types.h>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launcher/agent/worker.h"
#include "launcher/process/command.h"
#include "supervisor/protocol/agent_messages.h"

// Captures the stacks of a process, as far as that is possible without extra rights: the kernel's data about
// each of its threads, and a backtrace by eu-stack or gdb if one is installed and permitted to attach.
//
// Ownership: keeps itself alive until `done` has been called, once, within the time limit. Thread: the io_context's
// thread; kernel data is read in short reads, the tools are separate processes. Errors: lines that say what was not
// available.

namespace elastictrain::launcher {

// One line for the process and one for each of its threads (bounded), from /proc.
std::vector<std::string> describe_threads(pid_t pid);

// The command that prints the stacks of all threads of `pid`; empty if no such tool is installed.
std::vector<std::string> backtrace_command(pid_t pid);

class StackCapture : public std::enable_shared_from_this<StackCapture> {
 public:
  using Done = std::function<void(std::vector<std::string> lines)>;

  static void start(asio::io_context& io, pid_t pid, std::chrono::milliseconds time_limit, Done done);

  StackCapture(asio::io_context& io, Done done) : timer_(io), done_(std::move(done)) {}

 private:
  void begin(asio::io_context& io, pid_t pid, std::chrono::milliseconds time_limit);
  void add(std::string line);
  void tool_ended(const CommandEnd& end);
  void finish();

  asio::steady_timer timer_;
  Done done_;
  std::shared_ptr<Command> tool_;
  std::vector<std::string> lines_;
};

// Answers what the supervisor asks about a worker of this host (README.md has the recipe for a new question).
//
// Ownership: the caller's workers are only read. Thread: the io_context's thread, never blocked. Errors: in the lines;
// `done` is called at most once, within the time limit.

using Workers = std::map<WorkerId, std::unique_ptr<WorkerProcess>>;

void answer_question(asio::io_context& io, const protocol::AskAgent& asked, const Workers& workers,
                     std::function<void(std::vector<std::string> lines)> done);

}  // namespace elastictrain::launcher
