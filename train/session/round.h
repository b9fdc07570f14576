// Purpose: the batches that this worker trains between two meetings in pair averaging. A step of a round takes as many
// samples for each worker as it is expected to need; the worker takes them batch by batch, as fast as it is, and what
// it has not used by the meeting returns to the pool. So no message is needed to claim a sample, and each counts once.
// Pure.
//
// A round ends when its time is over, its samples are used, or something waits until they meet. In every other
// synchronization, and where a worker cannot run ahead of the others, a step is a round of one batch.
//
// Ownership: the step runner. Thread: the training thread. Failure: none.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "train/session/control_lane.h"
#include "train/session/monitors.h"

namespace elastictrain::session {

// What is known when a batch is taken.
struct RoundPace {
  Clock::time_point now;
  Clock::duration length{};    // of a round
  Clock::duration own_step{};  // of this worker's last batch, without waiting for others; 0: not known
  bool must_meet = false;      // a change, a loss or the end waits until they meet
  bool may_run_ahead = false;  // this worker's program can
};

class Round {
 public:
  static constexpr std::uint32_t kMaxBatches = 4096;
  static constexpr std::uint64_t kMaxSamples = 1U << 23;  // of one worker: exact in the lane

  // `allotted` samples, whose indices are `samples` if they have any. `batch` 0: all of them in one batch, like those
  // of a round that does not run ahead. No batch is below `least`, if the allotted samples are not.
  void begin(std::vector<std::uint64_t> samples, std::uint64_t allotted, std::uint64_t batch, std::uint64_t least,
             const RoundPace& pace);
  // The next batch, the last one before the workers meet if is_last().
  void take_batch(const RoundPace& pace);

  std::span<const std::uint64_t> samples() const;  // of the batch
  std::uint64_t batch_samples() const { return taken_; }
  bool is_last() const { return is_last_; }
  std::uint32_t batches() const { return batches_; }  // taken, with this one
  // What this worker says where they meet if the batch is the last one.
  Claim claim(const RoundPace& pace) const;

 private:
  std::uint64_t left() const { return allotted_ - used_; }

  std::vector<std::uint64_t> samples_;
  std::uint64_t allotted_ = 0;
  std::uint64_t batch_ = 0;
  std::uint64_t least_ = 0;
  std::uint64_t used_ = 0;   // with the batch that was taken
  std::uint64_t taken_ = 0;  // by it
  std::uint32_t batches_ = 0;
  bool is_last_ = false;
  Clock::time_point until_;
};

}  // namespace elastictrain::session
