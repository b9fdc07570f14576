// Purpose: programs of the user that answer one line of JSON with another: a policy, and a utility of the finished
// job. Nobody waits for them.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "heuristics/policy/view.h"
#include "launcher/process/process.h"
#include "supervisor/policy/external_policy.h"
#include "supervisor/protocol/result.h"

// A policy in any language: a program that reads one view per line and writes one decision per line, as JSON.
// Nobody blocks on it: ask() returns at once, and the answer, or the failure, comes later. What views and decisions say
// is its caller's matter.
//
// Ownership: owns the process, which has a session of its own; what is left of it ends with this object. Thread: the
// io_context's. Errors: a program that is too slow, exits, writes a line that is not a decision, writes too much or
// unasked, or closes its streams is killed, `failed` is called once with what was wrong, and it is not asked again.

namespace elastictrain::policy {

class Program {
 public:
  struct Handlers {
    // Its answer; an error says why the line is no decision.
    std::function<Status(const std::string& line)> answered;
    std::function<void(const std::string& why)> failed;
    std::function<void(const std::string& line)> on_line;  // a line of its standard error; excess lines are counted
  };

  static Result<std::unique_ptr<Program>> start(asio::io_context& io, const Outside& outside, Handlers handlers);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Only when it is_ready(). `view` is one line.
  void ask(std::string view);
  bool is_ready() const { return !has_failed_ && !asked_ && !is_ending_; }
  bool has_failed() const { return has_failed_; }

  // Closes its input, so that it knows that no more views follow. It may take timeout_ms to exit by itself.
  void close();
  bool is_running() const { return process_->running(); }

 private:
  Program(asio::io_context& io, const Outside& outside, Handlers handlers);
  void begin();
  void read_output();
  void take_output(std::size_t count);
  void take_line(const std::string& line);
  void read_error();
  void take_error(std::size_t count);
  void say(std::string line);
  void ending(const std::string& otherwise);
  void ended(launcher::ExitStatus status);
  void fail_if_over();
  void arm(const std::string& otherwise);
  void fail(const std::string& why);

  Handlers handlers_;
  std::vector<std::string> argv_;
  std::chrono::milliseconds timeout_;
  std::string answer_;                                     // what a line of it is called
  std::shared_ptr<char> life_ = std::make_shared<char>();  // callbacks that come too late find it gone
  std::vector<char> output_block_;
  std::vector<char> error_block_;
  std::string view_;  // the one being written
  std::string line_;
  std::string error_line_;
  std::string last_error_line_;
  std::uint64_t error_lines_ = 0;  // since the last view
  bool asked_ = false;
  bool is_ending_ = false;  // a stream has closed or the process has exited, the others follow soon
  int open_streams_ = 2;
  std::string end_text_;  // how the process exited; empty: it has not
  bool has_failed_ = false;
  asio::steady_timer deadline_;
  std::unique_ptr<launcher::Process> process_;
};

// A program of the user's that says what the finished job is worth at a time: it reads the run's state as one
// line of JSON and writes a table as one line, before each view of the policy. Training never waits for it.
//
// Ownership: owns the process. Thread: the io_context's. Errors: a program that is too slow, ends, or writes a line
// that is no table is killed and not asked again; from then on there is no table, and failure() says why.

using UtilityTable = std::vector<heuristics::UtilityPoint>;

// {"utility": [[SECONDS, VALUE], …]}, seconds in order, at most kMaxUtilityPoints. kInvalid with what is wrong.
inline constexpr std::size_t kMaxUtilityPoints = 256;  // the journal has them in every view
Result<UtilityTable> read_utility(std::string_view text);

class UtilityProgram {
 public:
  static Result<std::unique_ptr<UtilityProgram>> start(asio::io_context& io, const Outside& outside,
                                                       std::function<void(const std::string& line)> on_line);

  // Whether its answer about now is there, or none will come. Otherwise it is asked, once, with what `state` gives.
  bool is_settled(const std::function<heuristics::ClusterView()>& state);

  const UtilityTable& table() const { return table_; }
  const std::string& failure() const { return failure_; }  // empty: it works

  void close();
  bool is_running() const { return program_->is_running(); }

 private:
  UtilityProgram() = default;

  UtilityTable table_;
  std::string failure_;
  bool has_answer_ = false;
  std::unique_ptr<Program> program_;
};

}  // namespace elastictrain::policy
