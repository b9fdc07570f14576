// Purpose: measurement of a worker's own steps at no extra work: where the time of a step goes, gradient norms and
// the steps in which they are measured, and the means that heartbeats report.
#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>

#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/step_metrics.h"
#include "supervisor/protocol/worker_messages.h"
#include "train/comm/communicator.h"

// The steps in which gradient norms are measured: every 16th, and more of the first thousand: each up to step
// 128, then every second, fourth and eighth, half as many with each doubling. Early gradients change fast, and a policy
// that follows their noise has little to go by. A worker that trains alone is asked for halves of its batch, which cost
// its program more than a norm: it is in every 16th step from the first on.
//
// All workers derive it from the number of the step. Pure.

namespace elastictrain::session {

inline constexpr Step kStepsWithAllNorms = 128;
inline constexpr Step kMaxNormInterval = 16;  // steps

// `number` is that of the step, from 1 on.
constexpr bool measures_norms(Step number, std::uint32_t world_size) {
  const Step before = number - 1;
  const Step interval = std::min(std::bit_ceil(before / kStepsWithAllNorms + 1), kMaxNormInterval);
  return before % (world_size == 1 ? kMaxNormInterval : interval) == 0;
}

// Measures the session's own steps at no extra work: where the time of a step goes, and the means that
// heartbeats report.
//
// Thread: marks on the training thread; heartbeat() on the control thread. Time is an argument.

using Clock = std::chrono::steady_clock;

// `compute_us`: outside the collectives, before the last one began.
using StepTimes = protocol::StepMetrics;

// Times one step at a time: batch -> (collective …) -> commit. What the program announced as a phase (Session::phase())
// counts as data wait or in no step at all. A device may report a time before the last mark, such as
// a gradient that was complete before the preceding sum. Such a time counts as that mark.
class StepClock {
 public:
  void step_begins(Clock::time_point now);  // next_batch() was called
  void batch_given(Clock::time_point now);
  void collective_begins(Clock::time_point now);
  void collective_ends(Clock::time_point now);
  StepTimes step_ends(Clock::time_point now);
  void phase_begins(bool is_data, Clock::time_point now);
  void phase_ends(Clock::time_point now);

 private:
  struct Phase {
    bool is_data = false;
    Clock::time_point since;  // not accounted for from here on
  };

  void account_for_phase(Clock::time_point now);

  std::optional<Phase> phase_;
  bool in_step_ = false;
  Clock::time_point last_end_{};
  Clock::time_point mark_{};
  StepTimes times_;
};

// The gradient noise scale in samples: EMA(S) / EMA(G), each with a decay of 0.9, where G = (B |g_B|^2 - b |g_b|^2) /
// (B - b) and S = (|g_b|^2 - |g_B|^2) / (1/b - 1/B). |g_b|^2 is the mean over all workers, with b samples each; |g_B|^2
// is that of their average (KungFu, algorithms B1, which uses one worker's only). Early values are often far off and
// can be negative.
class NoiseScale {
 public:
  void add(double local_batch, double global_batch, double local_square, double global_square);
  std::optional<double> value() const;

 private:
  bool known_ = false;
  double noise_ = 0;
  double signal_ = 0;
};

// Squared gradient norms of one step: the mean over the workers' own gradients (of a single worker: over those of two
// halves of its batch), and of the average. The inverse batches are the means of 1 / samples over the same gradients: a
// gradient of b samples has E|g|^2 = G^2 + S / b, so with these the means over any steps tell G^2 and S without bias.
struct StepNorms {
  double local_square = 0;
  double global_square = 0;
  double local_inverse_batch = 0;
  double global_inverse_batch = 0;
};

// The figures of a committed step for the next heartbeat.
struct StepFigures {
  Generation generation = 0;
  Step step = 0;
  std::uint64_t epoch = 0;
  double epoch_fraction = 0;
  double loss = 0;
  bool has_new_loss = false;
  double gradient_norm = 0;
  std::uint64_t global_samples = 0;  // of this step
  std::uint64_t samples_used = 0;    // of all steps
  comm::Traffic traffic;             // of all steps of the generation
};

// Means over the steps since the last heartbeat, and the progress of the run.
class Monitors {
 public:
  void step_done(const StepTimes& times, const StepFigures& figures, Clock::time_point now);
  // A batch of a step that goes on.
  void batch_done(const StepTimes& times);
  // The round trip to the most distant peer that this worker has a connection to.
  void round_trip_known(double round_trip_us);
  void device_memory_known(const protocol::DeviceMemoryUse& use);
  void norms_known(const StepNorms& norms);
  // Call it before the first step of a generation.
  void assigned(Generation generation, Step committed_step);
  protocol::WorkerHeartbeat heartbeat();

 private:
  void put_means(protocol::WorkerHeartbeat& heartbeat);
  void put_norms(protocol::WorkerHeartbeat& heartbeat);
  void put_loss(protocol::WorkerHeartbeat& heartbeat);

  std::mutex mutex_;
  std::uint64_t sequence_ = 0;
  StepFigures figures_;
  std::uint32_t steps_ = 0;
  protocol::StepMetrics sum_;
  double round_trip_us_ = 0;
  protocol::DeviceMemoryUse device_;
  std::uint32_t norm_steps_ = 0;
  StepNorms norm_sum_;
  std::uint64_t samples_ = 0;
  double loss_sum_ = 0;  // over loss_samples_
  std::uint64_t loss_samples_ = 0;
  Clock::time_point window_begin_{};
  Clock::time_point last_step_{};
};

}  // namespace elastictrain::session
