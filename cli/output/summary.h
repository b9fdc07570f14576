// Purpose: the results of a run: speed by world size, idle time of each change, the program's notes (accuracy), the
// reason for its end. Fed with figures and journal events as they occur. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "supervisor/control/run_figures.h"

namespace elastictrain::cli {

class Summary {
 public:
  using Fields = std::vector<std::pair<std::string, std::string>>;  // values are JSON texts

  void add_figures(const RunFigures& figures);
  void add_event(std::string_view event, const Fields& fields);

  // Several lines, each with a newline.
  std::string render(int exit_status) const;

 private:
  struct Change {
    std::uint64_t generation = 0;
    std::string kind;
    std::string reason;
    std::uint64_t size_before = 0;
    std::uint64_t size = 0;
    std::optional<double> idle_s;  // unknown if too few steps followed
  };
  struct Speed {
    double seconds = 0;
    double samples = 0;
  };

  void add_commit(const Fields& fields);
  void add_generation(const Fields& fields);
  void add_idle(const Fields& fields);
  std::string total_idle() const;
  std::string render_speeds() const;
  std::string render_changes() const;
  std::string render_failures() const;

  RunFigures last_;
  Step finished_step_ = 0;  // a short run ends before its figures arrive
  std::map<std::uint64_t, Speed> speeds_;
  std::vector<Change> changes_;
  std::uint64_t size_ = 0;  // of the newest committed generation
  std::map<std::string, std::string> notes_;
  std::string audit_;
  std::string end_reason_;
};

}  // namespace elastictrain::cli
