// Purpose: the only place that forks and executes. A Process is one child with its pipes; its exit is learned from a
// pidfd on the Asio loop, so that no SIGCHLD handler is needed and none of somebody else's children is reaped.
//
// Ownership: the holder owns the child; destroying a Process kills a child that still runs (with its group, if it has
// one of its own) and reaps it. Thread: the io_context's thread; spawn() must be called from a thread that lives as
// long as the child where parent_death_signal is used. Failure: spawn() says what could not be done, exec included.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/protocol/result.h"

namespace elastictrain::launcher {

enum class Stream { kNull, kPipe, kInherit };

struct ProcessSpec {
  std::vector<std::string> argv;         // argv[0] is looked up in the child's PATH unless it has a slash
  std::vector<std::string> environment;  // complete, "NAME=value"
  std::string working_directory;         // empty: the caller's
  Stream standard_input = Stream::kNull;
  Stream standard_output = Stream::kPipe;
  Stream standard_error = Stream::kPipe;
  std::string input_file;  // read as standard input instead, if set
  bool new_session = false;
  bool new_group = false;           // implied by new_session
  bool kill_group_at_exit = false;  // what the child leaves behind in its group ends with it
  int parent_death_signal = 0;
  std::vector<int> inherited_descriptors;  // beside the three streams; every other one is closed
  std::vector<int> processors;             // that it may use; empty: those of the caller
  bool traceable = false;  // the caller's debuggers may look into it, where the system restricts that to ancestors
};

struct ExitStatus {
  int exit_code = 0;  // when signal is 0
  int signal = 0;
};

class Process {
 public:
  using ExitHandler = std::function<void(ExitStatus)>;

  static Result<std::unique_ptr<Process>> spawn(asio::io_context& io, const ProcessSpec& spec, ExitHandler on_exit);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  bool running() const { return running_; }
  // To the child alone; nothing happens once it has ended.
  void signal(int number);
  // To the child's whole group (the child must have been given one).
  void signal_group(int number);

  // Our ends of the pipes; each may be taken once.
  asio::posix::stream_descriptor& input() { return input_; }
  asio::posix::stream_descriptor& output() { return output_; }
  asio::posix::stream_descriptor& error() { return error_; }

 private:
  explicit Process(asio::io_context& io);
  void watch(ExitHandler on_exit);
  std::optional<siginfo_t> look(int options) const;
  void reap(ExitHandler on_exit);

  pid_t pid_ = -1;
  bool running_ = false;
  bool owns_group_ = false;
  bool kill_group_at_exit_ = false;
  std::shared_ptr<char> life_ = std::make_shared<char>();  // a wait that completes too late finds it gone
  asio::posix::stream_descriptor pidfd_;
  asio::posix::stream_descriptor input_;
  asio::posix::stream_descriptor output_;
  asio::posix::stream_descriptor error_;
};

// Lets this process have as many descriptors as the system allows. Children get the limit back that was in force
// before, because a program may take a high one amiss. Call before any thread is started.
void raise_descriptor_limit();

// True for a child that a Process watches and will reap.
bool is_watched_child(pid_t pid);

// This process's own environment, as a ProcessSpec wants it.
std::vector<std::string> own_environment();

// `base` with the variables of `changes` set; a later one of the same name wins, and every name appears once.
std::vector<std::string> merge_environment(std::vector<std::string> base, const std::vector<std::string>& changes);

// Of the last "NAME=value" of this name, as for a program.
std::optional<std::string> value_of(const std::vector<std::string>& environment, const std::string& name);

}  // namespace elastictrain::launcher
