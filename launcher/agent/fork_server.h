// Purpose: a Python process of this host that has imported the modules of `workers.preload`, and is forked for each
// worker: a framework that takes seconds to import is imported once on a host, and never beside workers that train.
//
// Its program is the package's own (train/python/elastictrain/_fork_server.py). A forked process is the agent's child,
// because the agent is the subreaper of all its descendants. The server must not have threads or an initialized CUDA.
//
// Ownership: the agent owns it; its destructor ends the server, and forgets the requests. Thread: the io_context's.
// Errors: what the server cannot do is told once with advice, and each request that it does not serve gets an Error, so
// that its worker can be started in the usual way.
#pragma once

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/agent/output_pump.h"
#include "launcher/process/process.h"
#include "launcher/python_command.h"

namespace elastictrain::launcher {

struct ForkServerSetup {
  PythonCommand command;
  std::vector<std::string> modules;
  std::vector<std::string> environment;  // complete
  std::string working_directory;
  std::chrono::milliseconds time_limit{0};  // for the imports, and for a fork
};

class ForkServer {
 public:
  using Done = std::function<void(Result<ForkedChild>)>;
  struct Tell {
    std::function<void(const std::string&)> said;      // that it is ready; each line that it writes
    std::function<void(const std::string&)> given_up;  // once; before its requests are answered
  };

  static Result<std::unique_ptr<ForkServer>> start(asio::io_context& io, const ForkServerSetup& setup, Tell tell);
  ~ForkServer();

  bool usable() const { return state_ != State::kEnded; }
  pid_t pid() const { return process_->pid(); }
  // Serves one request after the other, the first one when the modules are imported. `spec.argv` is not used.
  void fork(const ProcessSpec& spec, const std::vector<std::string>& program, Done done);

  ForkServer(asio::io_context& io, const ForkServerSetup& setup, Tell tell);

 private:
  enum class State { kImporting, kReady, kEnded };
  struct Request {
    std::string text;
    Streams streams;
    Done done;
  };

  Status begin(const ForkServerSetup& setup);
  void watch_channel();
  void channel_readable();
  void serve_next();
  Status send(Request& request);
  void watch_answer();
  void answered();
  void await_end();
  void answer(pid_t pid, const std::string& problem);
  void limit_wait(const std::string& what);
  void ended(ExitStatus status);
  void error_ended();
  void give_up(const std::string& reason);

  asio::io_context& io_;
  const Tell tell_;
  const std::chrono::milliseconds time_limit_;
  const std::string modules_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  State state_ = State::kImporting;
  std::unique_ptr<Process> process_;
  std::unique_ptr<OutputPump> error_;
  std::string last_line_;  // that it wrote
  std::string how_ended_;  // empty: it runs
  asio::posix::stream_descriptor channel_;
  asio::posix::stream_descriptor answer_;  // of the first request, if it was sent
  asio::steady_timer deadline_;
  std::deque<Request> requests_;
  std::shared_ptr<char> life_ = std::make_shared<char>();
};

}  // namespace elastictrain::launcher
