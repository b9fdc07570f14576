// Purpose: output of a run and its workers, kept in the run's directory, and its text for `logs` and `attach`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "cli/config/label.h"
#include "cli/output/file_follow.h"
#include "cli/output/log_file.h"
#include "supervisor/output_line.h"

// All output of a run and its workers, kept in the run's directory for `logs` and `attach`: output.log, and
// output.1.log before it was rotated. A line each:
//
//   2026-01-31T14:03:05.123 w3 1 hostA out text        a worker's line: worker, rank ("-": none), host, out or err
//   2026-01-31T14:03:05.123 run - - warning text       a message of the run: info, warning or error
//   2026-01-31T14:03:05.123 run - - end 0              its last line: the exit status
//
// Bounded: both files together take at most about log.kept_bytes. Times are local.
// Ownership: RunLog owns the open file. Thread: one at a time. Errors: kIo, with the path.

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

// The output of a run and its workers (run_log.h), as text for `logs` and `attach`: chosen, labelled, and at
// first only the newest lines if a number of them is given.
// Thread: one.

struct KeptChoice {
  std::optional<RankSet> ranks;     // none: of all, and the run's messages
  std::string since;                // "2026-01-31T14:03:05" or its beginning; empty: from the first line
  std::optional<std::size_t> last;  // none: all
  bool times = false;
  bool colours = false;
};

// Whether the line is meant, apart from `last`.
bool is_chosen(const KeptChoice& choice, const KeptLine& line);

// "[hostA:1] text", "elastictrain: warning: text"; with the time before it if it is asked for.
std::string render_kept(const KeptChoice& choice, const KeptLine& line);

class KeptOutput {
 public:
  KeptOutput(const std::string& run_directory, KeptChoice choice);

  // Nothing was kept, or it cannot be read.
  bool is_open() const { return newer_.is_open(); }

  // The lines so far, once.
  void print_all(const std::function<void(const std::string& line)>& print);
  // The lines since. Returns the exit status if the last line of the run was among them.
  std::optional<int> print_new(const std::function<void(const std::string& line)>& print);
  // The exit status in the last line that was read, which an earlier end of a run that goes on has as well; none: that
  // line is no end.
  std::optional<int> ended() const { return ended_; }

 private:
  // A line that is chosen; any line sets ended_.
  std::optional<KeptLine> take(std::string_view text);

  KeptChoice choice_;
  FileFollower older_;
  FileFollower newer_;
  std::optional<int> ended_;
};

}  // namespace elastictrain::cli
