// Purpose: the results of a run: speed by world size, idle time of each change, the program's notes (accuracy), the
// reason for its end. Fed with figures and journal records as they occur. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/control/run_status.h"
#include "supervisor/core/pure/records.h"

namespace elastictrain::cli {

// "3840 samples in 120 steps: 0 missing, …".
std::string audit_text(const core::record::Audit& audit);

class Summary {
 public:
  void add_figures(const RunFigures& figures);
  void add_record(const core::Record& record);

  // Several lines, each with a newline.
  std::string render(int exit_status) const;
  const std::string& end_reason() const { return end_reason_; }

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

  template <class R>
  void on(const R&) {}  // not shown
  void on(const core::record::Commit& commit);
  void on(const core::record::GenerationComplete& generation);
  void on(const core::record::Idle& idle);
  void on(const core::record::FirstMissing& missing) { no_first_ = missing.reason; }
  void on(const core::record::FirstSuccessor&) { no_first_.clear(); }
  void on(const core::record::Note& note) { notes_[note.key] = note.value; }
  void on(const core::record::Finished& finished);
  void on(const core::record::RunClosed& closed);
  void on(const core::record::End& end) { end_reason_ = end.reason; }
  void on(const core::record::Audit& audit);
  std::string total_idle() const;
  std::string render_speeds() const;
  std::string render_changes() const;
  std::string render_failures() const;

  RunFigures last_;
  Step last_step_ = 0;  // of the records: a short run ends before its figures arrive
  double last_loss_ = 0;
  std::map<std::uint64_t, Speed> speeds_;
  std::vector<Change> changes_;
  std::uint64_t size_ = 0;  // of the newest committed generation
  std::map<std::string, std::string> notes_;
  std::string audit_;
  bool audit_failed_ = false;
  std::string end_reason_;
  std::string no_first_;  // why the program may save and print nothing
};

}  // namespace elastictrain::cli
