// Purpose: a program of the user's that says which trials of a sweep are stopped: it reads the sweep as one line of
// JSON and writes its answer as one line, whenever a trial has reported or changed its state. Nobody waits for it.
//
// Ownership: owns the process. Thread: the io_context's. Errors: a program that is too slow, ends, or writes a line
// that is no answer is killed and not asked again; it stops no trial any more, and failure() says why.
#pragma once

#include <asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cli/config/sweep_file.h"
#include "cli/output/cluster_text.h"
#include "supervisor/policy/program.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::cli {

// Reasons by the names of trials.
struct SweepAnswer {
  std::map<std::string, std::string> stop;
  std::map<std::string, std::string> go_on;
};

// {"stop": {"lr-3": "why"}, "continue": {"lr-1": "why"}}; both may be missing, and trials that neither names go on.
// kInvalid with what is wrong.
Result<SweepAnswer> read_sweep_answer(std::string_view text, const SweepView& sweep);

class SweepProgram {
 public:
  // `directory`: in which it is started.
  static Result<std::unique_ptr<SweepProgram>> start(asio::io_context& io, const SweepFile& file,
                                                     const std::string& directory,
                                                     std::function<void(const std::string& line)> on_line);

  // Asks about this state, unless it has been asked about it, or has not answered yet.
  void ask(const SweepView& sweep);
  // The newest answer, once.
  std::optional<SweepAnswer> take() { return std::exchange(answer_, std::nullopt); }
  const std::string& failure() const { return failure_; }  // empty: it works

  void close() { program_->close(); }
  bool is_running() const { return program_->is_running(); }

 private:
  SweepProgram() = default;

  SweepView asked_;
  std::string about_;  // what it was asked last
  std::optional<SweepAnswer> answer_;
  std::string failure_;
  std::unique_ptr<policy::Program> program_;
};

}  // namespace elastictrain::cli
