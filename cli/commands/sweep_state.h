// Purpose: progress of a sweep, kept in one file, so that the same command continues it after its end: its trials,
// which of them are jobs of the cluster, and what became of them.
//
// Ownership: the sweep. Thread: one. Errors: values that name the file and what to do. After a crash there is the file
// as it was before the last change or after it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/config/sweep_file.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::cli {

struct TrialState {
  double begun_unix_s = 0;  // its submission was begun then; 0: not yet
  bool is_submitted = false;
  std::string refused;        // why it can never be a job of the cluster
  std::string stopped;        // the rule's reason
  std::optional<int> status;  // the job has ended
};

class SweepState {
 public:
  // <state>/sweeps/NAME.json. kRefused: it is of a sweep with other trials, or runs of the trials' names exist already.
  static Result<SweepState> open(const SweepFile& file, const std::vector<SweepTrial>& trials);

  std::vector<TrialState> trials;  // in the order of the sweep's

  // The file of what the trials report (sweep_report_file.h).
  std::string reports_path() const;

  // Writes the file if something has changed since it was written last.
  Status save();

 private:
  SweepState(std::string path, std::vector<SweepTrial> planned);

  std::string path_;
  std::vector<SweepTrial> planned_;
  std::string written_;
};

}  // namespace elastictrain::cli
