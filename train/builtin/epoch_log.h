// Purpose: the lines that the built-in trainer prints for users, and the figures in them. Pure, except for the time,
// which is an argument.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "train/builtin/model.h"

namespace elastictrain::train {

// Mean loss and throughput since `start`, of one epoch or of several that share a line.
class EpochLog {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  explicit EpochLog(Instant start) : start_(start) {}

  void add_step(double loss, std::uint64_t samples);

  bool empty() const { return samples_ == 0; }
  double mean_loss() const;
  double samples_per_second(Instant now) const;

 private:
  Instant start_;
  double loss_sum_ = 0;
  std::uint64_t samples_ = 0;
};

// Which epochs get a line and a score: all of the first hundred, then one every half second, so that thousands of tiny
// epochs flood neither the output nor the journal.
class TellingPace {
 public:
  // `done` epochs are over. Remembers the time when it returns true.
  bool due(std::uint64_t done, EpochLog::Instant now);

 private:
  EpochLog::Instant last_{};
};

// "0.9722": four digits.
std::string four_digits(double value);

// "epoch 3/20: loss 0.1234, 4 workers, 56789 samples/s"; epochs count from 1 here.
std::string epoch_line(std::uint64_t epoch, std::uint64_t epochs, const EpochLog& log, std::uint32_t world_size,
                       EpochLog::Instant now);
// "epoch 3/20: held-out loss 0.1234, accuracy 0.9722 (1747 of 1797)"
std::string score_line(std::uint64_t epoch, std::uint64_t epochs, const Score& score);
// "finished after 1200 steps: held-out loss …"; without held-out data only the first part.
std::string final_line(std::uint64_t steps, const Score& score);

}  // namespace elastictrain::train
