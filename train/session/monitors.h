// Purpose: what the session learns about its own steps from work it does anyway: where the time of a step goes, and the
// means that heartbeats carry.
//
// Thread: marks on the training thread; take() from the control thread. Time is an argument.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>

namespace elastictrain::session {

using Clock = std::chrono::steady_clock;

struct StepTimes {
  double step_us = 0;
  double data_wait_us = 0;
  double compute_us = 0;      // outside the collectives, before the last one began
  double communicate_us = 0;
  double update_us = 0;       // after the last collective
};

// Times one step at a time: batch -> (collective …) -> commit.
class StepClock {
 public:
  void step_begins(Clock::time_point now);       // next_batch() was called
  void batch_given(Clock::time_point now);
  void collective_begins(Clock::time_point now);
  void collective_ends(Clock::time_point now);
  StepTimes step_ends(Clock::time_point now);

 private:
  Clock::time_point last_end_{};
  Clock::time_point mark_{};
  StepTimes times_;
};

// Sums over the steps since the last heartbeat.
class Means {
 public:
  struct Snapshot {
    std::uint32_t steps = 0;
    StepTimes mean;
    double samples_per_s = 0;
  };
  void add(const StepTimes& times, std::uint64_t global_samples, Clock::time_point now);
  Snapshot take();

 private:
  std::mutex mutex_;
  std::uint32_t steps_ = 0;
  StepTimes sum_;
  std::uint64_t samples_ = 0;
  Clock::time_point window_begin_{};
  Clock::time_point last_step_{};
};

}  // namespace elastictrain::session
