// Purpose: progress as lines: of a run, and of the bars that its workers draw. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "supervisor/control/run_status.h"
#include "supervisor/output_line.h"

// Progress bars of workers, whose lines are written over for minutes: which state becomes a line of a file or
// a pipe, and what a terminal shows at its bottom. Pure.

namespace elastictrain::cli {

class ProgressBars {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // A state of a bar. True if it is due as a line of its own: the first one, and others at intervals.
  bool due(const OutputLine& line, Time now);
  // What a terminal shows of it.
  void show(const OutputLine& line, std::string text, Time now);
  // A whole line has come instead.
  void end(const OutputLine& line);

  // At most a few lines, the lowest workers first, each followed by a newline and of at most `columns`. Without those
  // that have not moved for long: their workers may be gone.
  std::string render(std::size_t columns, Time now) const;

 private:
  struct Bar {
    Time next_line;
    Time moved;
    std::string text;
  };
  using Key = std::pair<WorkerId, bool>;  // and whether it is on standard error
  static Key key_of(const OutputLine& line) { return {line.worker, line.is_stderr}; }

  std::map<Key, Bar> bars_;
};

// The state of a run in one line, for the bottom of a terminal or a log. Pure: figures in, text out.

// Fits `width` columns: less important parts are removed first, then the line is cut.
std::string render_progress(const RunFigures& figures, std::size_t width);

// The same with all parts, for a log.
std::string render_progress_plain(const RunFigures& figures);

}  // namespace elastictrain::cli
