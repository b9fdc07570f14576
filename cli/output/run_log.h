// Purpose: all output of a run and its workers, kept in the run's directory for `logs` and `attach`: output.log, and
// output.1.log before it was rotated. A line each:
//
//   2026-01-31T14:03:05.123 w3 1 hostA out text        a worker's line: worker, rank ("-": none), host, out or err
//   2026-01-31T14:03:05.123 run - - warning text       a message of the run: info, warning or error
//   2026-01-31T14:03:05.123 run - - end 0              its last line: the exit status
//
// Bounded: both files together take at most about log.kept_bytes. Times are local.
// Ownership: RunLog owns the open file. Thread: one at a time. Errors: kIo, with the path.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cli/output/log_file.h"
#include "supervisor/output_line.h"

namespace elastictrain::cli {

class RunLog {
 public:
  // `fresh`: a run that begins removes what an earlier one of its name left; one that is taken over continues it.
  static Result<RunLog> open(const std::string& run_directory, std::uint64_t max_bytes, bool fresh);

  Status add_line(std::string_view time, const OutputLine& line, std::string_view text);
  Status add_message(std::string_view time, LogLevel level, std::string_view text);
  Status add_end(std::string_view time, int exit_status);

 private:
  explicit RunLog(LogFile file) : file_(std::move(file)) {}
  Status add_own(std::string_view time, std::string_view kind, std::string_view text);
  LogFile file_;
};

// One line of it. The views are into the line.
struct KeptLine {
  std::string_view time;
  std::string_view worker;  // "w3"; "run" for a message
  std::string_view rank;    // "-": none
  std::string_view host;
  std::string_view kind;  // out, err; info, warning, error, end
  std::string_view text;

  bool is_of_run() const { return worker == "run"; }
  // Of the last line.
  std::optional<int> exit_status() const;
};
// Nothing: it is no line of a run log (one that was torn).
std::optional<KeptLine> read_kept_line(std::string_view line);

// In the order of time. The older one may be missing.
std::string kept_log_path(const std::string& run_directory);
std::string older_kept_log_path(const std::string& run_directory);

}  // namespace elastictrain::cli
