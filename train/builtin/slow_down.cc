#include "train/builtin/slow_down.h"

#include <cstdlib>
#include <fstream>
#include <utility>

namespace elastictrain::train {
namespace {

constexpr std::uint64_t kCallsPerLook = 4;

double read_factor(const std::string& path) {
  std::ifstream file(path);
  double factor = 0;
  return (file >> factor) && factor > 0 && factor <= 1000 ? factor : 1;
}

}  // namespace

SlowDown::SlowDown(std::span<const SlowWorker> slow, std::string directory, std::uint64_t worker_id) {
  for (const SlowWorker& entry : slow) {
    if (entry.worker_id == worker_id) fixed_factor_ = entry.factor;
  }
  if (!directory.empty()) path_ = std::move(directory) + "/slow-" + std::to_string(worker_id);
}

double SlowDown::next_factor() {
  if (!path_.empty() && calls_++ % kCallsPerLook == 0) file_factor_ = read_factor(path_);
  return fixed_factor_ * file_factor_;
}

std::string slow_directory() {
  const char* const directory = std::getenv("ELASTICTRAIN_SLOW_DIR");
  return directory == nullptr ? "" : directory;
}

}  // namespace elastictrain::train
