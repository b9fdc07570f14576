// Purpose: the configured slow-down of this worker's computation, for tests and benchmarks of stragglers: a factor from
// the options, by worker id, times one from the file $ELASTICTRAIN_SLOW_DIR/slow-<worker id>, which may appear, change
// and vanish during the run.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "train/builtin/options.h"

namespace elastictrain::train {

class SlowDown {
 public:
  // `directory` may be empty: no file.
  SlowDown(std::span<const SlowWorker> slow, std::string directory, std::uint64_t worker_id);

  // Called once a step; reads the file every few calls. A file without a number above 0 counts as factor 1.
  double next_factor();

 private:
  double fixed_factor_ = 1;
  double file_factor_ = 1;
  std::string path_;
  std::uint64_t calls_ = 0;
};

// $ELASTICTRAIN_SLOW_DIR, or empty.
std::string slow_directory();

}  // namespace elastictrain::train
