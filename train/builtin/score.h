// Purpose: the quality of predictions.
#pragma once

#include <cstdint>

namespace elastictrain::train {

struct Score {
  double loss = 0;  // mean
  std::uint64_t correct = 0;
  std::uint64_t count = 0;

  double accuracy() const { return count == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(count); }

  void add(const Score& other) {
    if (other.count == 0) return;
    const auto mine = static_cast<double>(count);
    const auto theirs = static_cast<double>(other.count);
    loss = (loss * mine + other.loss * theirs) / (mine + theirs);
    correct += other.correct;
    count += other.count;
  }
};

}  // namespace elastictrain::train
