// Purpose: one command that runs in the background: its standard input is given, its output is collected within bounds,
// it may have a deadline, and it can be ended reliably. ssh, the local agent, the copying of the binary and discovery
// scripts are all Commands.
//
// Ownership: shared; a running Command keeps itself alive until on_end has been called. Thread: the io_context's
// thread. Errors: start() reports why the program could not be run; everything later is in CommandEnd, delivered
// exactly once.
#pragma once

#include <signal.h>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/process/process.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::launcher {

struct CommandSpec {
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // "NAME=value", added to our own
  std::string input;                     // written to standard input, which is then closed
  std::string input_file;                // alternatively: this file is standard input
  std::size_t max_output_bytes = 1 << 20;
  bool keep_output = true;                     // false: only on_line sees it
  bool sweep_session = false;                  // processes left in its session are killed when it has exited
  std::chrono::milliseconds deadline{0};       // 0: none
  std::chrono::milliseconds kill_after{1000};  // from terminate() on; more for a command that has to tidy up
  int stop_signal = SIGTERM;                   // what terminate() sends first
};

struct CommandEnd {
  ExitStatus status;
  bool timed_out = false;
  bool output_too_large = false;
  std::string output;
  std::string error_text;  // the last lines of standard error, bounded
};

class Command : public std::enable_shared_from_this<Command> {
 public:
  using LineHandler = std::function<void(const std::string&)>;
  using EndHandler = std::function<void(CommandEnd)>;

  static Result<std::shared_ptr<Command>> start(asio::io_context& io, CommandSpec spec, LineHandler on_line,
                                                EndHandler on_end);
  // The stop signal to its group now, KILL after one second.
  void terminate();
  void clear_deadline();
  pid_t pid() const { return process_->pid(); }

  Command(asio::io_context& io, CommandSpec spec, LineHandler on_line, EndHandler on_end);
  ~Command();

 private:
  void begin(std::unique_ptr<Process> process);
  void write_input();
  void arm_deadline();
  void read_output();
  void read_error();
  void take_output(std::size_t count);
  void process_ended(ExitStatus status);
  void finish_if_done();
  void finish();
  void kill_now();

  CommandSpec spec_;
  LineHandler on_line_;
  EndHandler on_end_;
  std::unique_ptr<Process> process_;
  asio::steady_timer deadline_;
  bool has_deadline_ = false;
  asio::steady_timer kill_timer_;
  asio::steady_timer drain_timer_;
  std::vector<char> output_block_;
  std::vector<char> error_block_;
  std::string line_;
  CommandEnd end_;
  int open_streams_ = 0;
  bool ended_ = false;
  bool finished_ = false;
};

// The last line of a text that is not empty; a tool usually prints its error last.
std::string last_line(const std::string& text);

// "exit status 3" or "signal 9 (Killed)".
std::string describe(const ExitStatus& status);

}  // namespace elastictrain::launcher
