// Purpose: the output of a run and its workers (run_log.h), as text for `logs` and `attach`: chosen, labelled, and at
// first only the newest lines if a number of them is given.
// Thread: one.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "cli/config/rank_set.h"
#include "cli/output/file_follow.h"
#include "cli/output/run_log.h"

namespace elastictrain::cli {

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
  // The lines since. Returns the exit status if the last one was among them.
  std::optional<int> print_new(const std::function<void(const std::string& line)>& print);

 private:
  KeptChoice choice_;
  FileFollower older_;
  FileFollower newer_;
};

}  // namespace elastictrain::cli
