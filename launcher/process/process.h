// Purpose: the only place that forks and executes: one child process with its pipes, and its standard streams before
// it exists.
#pragma once

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <array>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "supervisor/protocol/result.h"

// The three standard streams of a child before it exists, and the descriptors that they consist of.
//
// Ownership: a Fd closes its descriptor. Thread: any. Errors: what could not be opened, with advice where descriptors
// are used up.

namespace elastictrain::launcher {

struct ProcessSpec;

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept {
    reset(other.release());
    return *this;
  }
  ~Fd() { reset(-1); }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd);

 private:
  int fd_ = -1;
};

struct StreamEnds {
  Fd child;
  Fd parent;
};

struct Streams {
  std::array<Fd, 3> child;
  std::array<Fd, 3> parent;  // of those that are pipes
};

Result<StreamEnds> open_pipe(bool parent_writes);

// As the spec asks for; all descriptors are closed on exec.
Result<Streams> open_streams(const ProcessSpec& spec);

Error system_error(const std::string& what, int error);

// The only place that forks and executes. A Process is one child with its pipes; its exit is observed through
// a pidfd on the Asio loop, so that no SIGCHLD handler is needed and children of other owners are not reaped.
//
// Ownership: the holder owns the child; destroying a Process kills a child that still runs (with its group, if it has
// one of its own) and reaps it. Thread: the io_context's thread; spawn() must be called from a thread that exists as
// long as the child if parent_death_signal is used. Errors: spawn() reports what could not be done, including exec.

enum class Stream { kNull, kPipe, kInherit };

struct ProcessSpec {
  std::vector<std::string> argv;         // argv[0] is looked up in the child's PATH unless it contains a slash
  std::vector<std::string> environment;  // complete, "NAME=value"
  std::string working_directory;         // empty: the caller's
  Stream standard_input = Stream::kNull;
  Stream standard_output = Stream::kPipe;
  Stream standard_error = Stream::kPipe;
  std::string input_file;  // read as standard input instead, if set
  bool new_session = false;
  bool new_group = false;           // implied by new_session
  bool kill_group_at_exit = false;  // processes that the child leaves behind in its group end with it
  int parent_death_signal = 0;
  std::vector<int> inherited_descriptors;  // in addition to the three streams; all others are closed
  std::vector<int> processors;             // that it may use; empty: those of the caller
  bool traceable = false;  // the caller's debuggers may attach to it, if the system restricts that to ancestors
};

struct ExitStatus {
  int exit_code = 0;  // if signal is 0
  int signal = 0;
  std::uint64_t peak_bytes = 0;  // of main memory, of the process or a child that it has waited for; 0: not known
};

// A child of this process that another one has forked in its place. It waits until it is adopted, and ends where it is
// not.
struct ForkedChild {
  pid_t pid = -1;
  Streams streams;
  Fd hold;  // a socket to it
};

class Process {
 public:
  using ExitHandler = std::function<void(ExitStatus)>;

  static Result<std::unique_ptr<Process>> spawn(asio::io_context& io, const ProcessSpec& spec, ExitHandler on_exit);
  // Of `spec` only what concerns its end counts. Errors: it is no child of this process.
  static Result<std::unique_ptr<Process>> adopt(asio::io_context& io, ForkedChild child, const ProcessSpec& spec,
                                                ExitHandler on_exit);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  bool running() const { return running_; }
  // To the child alone; nothing happens once it has exited.
  void signal(int number);
  // To the child's whole group (the child must have one of its own).
  void signal_group(int number);
  // From now on the child goes on when this is destroyed. It must have a session of its own.
  void let_live() { lives_on_ = true; }

  // The caller's ends of the pipes; each may be taken once.
  asio::posix::stream_descriptor& input() { return input_; }
  asio::posix::stream_descriptor& output() { return output_; }
  asio::posix::stream_descriptor& error() { return error_; }

 private:
  explicit Process(asio::io_context& io);
  static std::unique_ptr<Process> watched(asio::io_context& io, pid_t pid, Fd pidfd, Streams streams,
                                          const ProcessSpec& spec, ExitHandler on_exit);
  void watch(ExitHandler on_exit);
  std::optional<siginfo_t> look(int options, rusage* usage = nullptr) const;
  void reap(ExitHandler on_exit);

  pid_t pid_ = -1;
  bool running_ = false;
  bool owns_group_ = false;
  bool lives_on_ = false;
  bool kill_group_at_exit_ = false;
  std::shared_ptr<char> life_ = std::make_shared<char>();  // a wait that completes too late finds it expired
  asio::posix::stream_descriptor pidfd_;
  asio::posix::stream_descriptor input_;
  asio::posix::stream_descriptor output_;
  asio::posix::stream_descriptor error_;
};

// Raises this process's descriptor limit to the maximum that the system allows. Children get the previous limit,
// because a program may not cope with a high one. Call before any thread is started.
void raise_descriptor_limit();

// Returns true for a child that a Process watches and will reap.
bool is_watched_child(pid_t pid);

// This process's own environment, in the form of a ProcessSpec.
std::vector<std::string> own_environment();

// `base` with the variables of `changes` set; a later one of the same name wins, and every name appears once.
std::vector<std::string> merge_environment(std::vector<std::string> base, const std::vector<std::string>& changes);

// The value of the last "NAME=value" of this name, as a program sees it.
std::optional<std::string> value_of(const std::vector<std::string>& environment, const std::string& name);

}  // namespace elastictrain::launcher
