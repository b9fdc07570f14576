// Purpose: slows down the synthetic model's workers, for tests and benchmarks, by numbers from the options, and from
// files in the directory $ELASTICTRAIN_SLOW_DIR, which may appear, change and vanish during the run:
//   slow-<worker id>  factor of this worker's compute time
//   slow-all          the same for every worker
//   exchange          factor of the time of an exchange
//   data-<worker id>  milliseconds that this worker waits for each batch
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "train/builtin/options.h"

namespace elastictrain::train {

// A number above 0, up to a million, from a file that is read at each call; `otherwise` while there is none.
class NumberFile {
 public:
  NumberFile() = default;
  // `directory` may be empty: no file.
  NumberFile(const std::string& directory, const std::string& name, double otherwise);

  double next() const;

 private:
  std::string path_;
  double otherwise_ = 1;
};

class SlowDown {
 public:
  // `directory` may be empty: no files.
  SlowDown(std::span<const SlowWorker> slow, const std::string& directory, std::uint64_t worker_id);

  // The factor of this worker's compute time. Called once a step.
  double next_factor();

 private:
  double fixed_factor_ = 1;
  NumberFile own_;
  NumberFile of_all_;
};

// $ELASTICTRAIN_SLOW_DIR, or empty.
std::string slow_directory();

}  // namespace elastictrain::train
