// Purpose: `elastictrain logs` and `attach`: the output that a run has kept, with the progress of a live one below
// it.
#pragma once

#include <chrono>
#include <string>

#include "supervisor/control/run_status.h"

// The progress line below the output of a run that another process supervises, on a terminal.
//
// Ownership: nothing. Thread: one. Errors: a run that does not answer has no progress line.

namespace elastictrain::cli {

class AttachedProgress {
 public:
  explicit AttachedProgress(std::string run_directory);
  ~AttachedProgress() { hide(); }
  AttachedProgress(const AttachedProgress&) = delete;
  AttachedProgress& operator=(const AttachedProgress&) = delete;

  // Before lines are printed.
  void hide();
  // After them. Asks the run once a second.
  void show();

 private:
  void refresh();

  const std::string directory_;
  const bool is_terminal_;
  std::chrono::steady_clock::time_point next_{};
  RunFigures figures_;
  bool known_ = false;
  bool drawn_ = false;
};

}  // namespace elastictrain::cli
