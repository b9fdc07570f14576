#include "train/builtin/slow_down.h"

#include <cstdlib>
#include <fstream>

namespace elastictrain::train {
namespace {

constexpr double kMaxNumber = 1e6;

double read_number(const std::string& path, double otherwise) {
  std::ifstream file(path);
  double number = 0;
  return (file >> number) && number > 0 && number <= kMaxNumber ? number : otherwise;
}

}  // namespace

NumberFile::NumberFile(const std::string& directory, const std::string& name, double otherwise)
    : path_(directory.empty() ? "" : directory + "/" + name), otherwise_(otherwise) {}

double NumberFile::next() const {
  return path_.empty() ? otherwise_ : read_number(path_, otherwise_);
}

SlowDown::SlowDown(std::span<const SlowWorker> slow, const std::string& directory, std::uint64_t worker_id)
    : own_(directory, "slow-" + std::to_string(worker_id), 1), of_all_(directory, "slow-all", 1) {
  for (const SlowWorker& entry : slow) {
    if (entry.worker_id == worker_id) fixed_factor_ = entry.factor;
  }
}

double SlowDown::next_factor() {
  return fixed_factor_ * own_.next() * of_all_.next();
}

std::string slow_directory() {
  const char* const directory = std::getenv("ELASTICTRAIN_SLOW_DIR");
  return directory == nullptr ? "" : directory;
}

}  // namespace elastictrain::train
