// Purpose: progress of the run and division of its samples: of the next step among the workers, of a step of pair
// averaging into local batches, and of the steps after it as a forecast.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "elastictrain/session.hpp"
#include "supervisor/protocol/plan_messages.h"
#include "train/session/control_lane.h"
#include "train/session/generation.h"
#include "train/session/monitors.h"
#include "train/state/progress.h"
#include "train/state/sampler.h"

// The division of a step among the workers, and the shares that count in the current assignment. Pure.
// Failure: none.

namespace elastictrain::session {

class RunProgress;

struct StepDivision {
  state::Cut cut;
  std::vector<state::WorkerShare> shares;  // as divided by the generation that opened it first
  std::size_t my_rank = 0;                 // in it; meaningful if this worker has samples
  // Which of these shares count in the current assignment.
  std::uint64_t my_count = 0;
  std::uint64_t counted = 0;
  std::vector<state::Interval> uncounted;
  std::vector<std::uint64_t> counts;  // by rank: samples of this share that count
  Step steps = 1;                     // that the commit advances by
  std::optional<state::Cut> used;     // the samples that count, if they are not all of `cut`

  const state::Cut& used_cut() const { return used ? *used : cut; }
  // Of each share that counts, only the first samples do, as many as its rank has used; the rest returns to the pool.
  void keep_used(std::span<const std::uint64_t> used_by_rank);

  // The weight of this worker's gradient in the sum. Requires samples.
  float my_weight() const { return static_cast<float>(static_cast<double>(my_count) / static_cast<double>(counted)); }
  // That of every worker in `assignment`, by rank; 0 for those without samples that count.
  std::vector<float> weights(const Assignment& assignment) const;
  std::uint32_t workers_with_samples() const;
  // Over these workers, the mean of 1 / samples of their own. 0 without samples.
  double mean_inverse_share() const;
};

// The step that follows the committed one. `inputs_are_kept`: workers can repeat its all-reduces.
StepDivision divide_step(const RunProgress& run_progress, const Assignment& assignment, WorkerId self,
                         bool inputs_are_kept);

// The batches that this worker trains between two meetings in pair averaging. A step of a round takes as many
// samples for each worker as it is expected to need; the worker takes them batch by batch, as fast as it is, and what
// it has not used by the meeting returns to the pool. So no message is needed to claim a sample, and each counts once.
// Pure.
//
// A round ends when its time is over, its samples are used, or something waits until they meet. In every other
// synchronization, and where a worker cannot run ahead of the others, a step is a round of one batch.
//
// Ownership: the step runner. Thread: the training thread. Failure: none.

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

// Progress of the run and the division of its next step: the numbers that all workers hold alike, in addition
// to the program's buffers. Which samples a step takes follows from them.
//
// Ownership: the worker. Thread: the training thread. Failure: none; a violated order of steps ends the process.

class RunProgress {
 public:
  explicit RunProgress(const DataOptions& data) : data_(data) {}

  const state::Progress& progress() const { return progress_; }
  Step committed_step() const { return progress_.committed_step; }
  Step next_step() const { return progress_.committed_step + 1; }
  // The step after which another worker can be at most if it has committed one that this worker has not.
  Step latest_next_step() const { return progress_.committed_step + longest_round_; }
  std::uint64_t sample_count() const { return data_.sample_count; }
  const DataOptions& data() const { return data_; }
  const std::vector<state::WorkerShare>& next_shares() const { return next_shares_; }
  bool data_is_used_up() const;
  // After the committed step every worker has a replica of its own. All workers know it of each other.
  bool replicas_differ() const { return averaged_until_ != 0 && averaged_until_ == progress_.committed_step; }
  // The same once `step` is committed, unless a change follows it.
  bool is_used_up_after(const StepDivision& step, const std::vector<state::WorkerShare>& shares) const;
  // The program's data end with the committed step, on all workers.
  void end_data() { data_ended_at_ = progress_.committed_step; }
  // The part of `epoch` that is used.
  double fraction_of(std::uint64_t epoch) const;

  // The epoch of which the next step drops the rest, as if all of it were used; nothing if it drops none.
  std::optional<state::Progress> dropped_epoch() const;

  // --- Where it begins
  void begin(std::vector<state::WorkerShare> shares, double learning_rate_factor);
  // A checkpoint's progress. The learning rate stays: it is for this run's size, not the size at the checkpoint.
  void resume(const state::Progress& saved);
  void set_generation_base(Generation base) { progress_.generation_base = base; }
  // The first rank's, in a first broadcast; or an earlier worker's of this process, until this one has an assignment.
  void adopt(const state::Progress& progress) { progress_ = progress; }
  // The donors'.
  void adopt(const state::TransferHeader& header);
  void put_into(state::TransferHeader& header) const;

  // This worker's samples in up to `batches` steps after `open`, or after the committed step if none is open.
  // `upcoming`: the shares of each step that no generation has divided yet, in their order; the last ones stay.
  LookAhead look_ahead(WorkerId self, std::uint32_t batches, const StepDivision* open,
                       std::span<const std::vector<state::WorkerShare>> upcoming) const;

  // --- How it continues
  state::Cut cut_next() const;
  // The indices of this worker's samples, appended to `samples`.
  void list_samples(const StepDivision& step, std::vector<std::uint64_t>& samples);
  // `shares`: of the current generation, which divides the next step.
  void commit(const StepDivision& step, bool averages, const std::vector<state::WorkerShare>& shares);
  // The next step is a round in which every worker takes as many batches as it claims. `claims`: by rank of
  // the current generation, whose shares divide it; each of at least one batch.
  void run_ahead(std::span<const Claim> claims);
  bool runs_ahead() const { return longest_round_ > 1; }
  // A planned generation divides the next step and has its own learning rate.
  void change_with(const protocol::GenerationPlan& plan);
  // From a recovery: learning rates change at a boundary, and its first one is the end of the repeated step.
  void expect_learning_rate(const protocol::GenerationPlan& plan);
  // The shares of workers without gradients count no more.
  void drop_shares_without_gradients(const Assignment& assignment);

 private:
  // Where the next step begins.
  state::SamplerState next_sampler() const;
  std::vector<std::uint32_t> next_counts() const;

  const DataOptions& data_;
  state::Progress progress_;
  std::vector<state::WorkerShare> next_shares_;  // of the next step, or of the open one if there is one
  Step averaged_until_ = 0;                      // as in the transfer header
  Step data_ended_at_ = 0;                       // likewise
  Step longest_round_ = 1;                       // batches of one worker until the next commit
  std::optional<state::LearningRateRamp> next_learning_rate_;
  std::uint64_t permutation_epoch_ = ~std::uint64_t{0};
  state::Permutation permutation_;
};

}  // namespace elastictrain::session
