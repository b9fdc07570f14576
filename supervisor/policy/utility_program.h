// Purpose: a program of the user's that says what the finished job is worth at a time: it reads the run's state as one
// line of JSON and writes a table as one line, before each view of the policy. Training never waits for it.
//
// Ownership: owns the process. Thread: the io_context's. Errors: a program that is too slow, ends, or writes a line
// that is no table is killed and not asked again; from then on there is no table, and failure() says why.
#pragma once

#include <asio/io_context.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "heuristics/policy/view.h"
#include "supervisor/policy/outside.h"
#include "supervisor/policy/program.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::policy {

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
