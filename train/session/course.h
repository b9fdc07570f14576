// Purpose: progress of the run and the division of its next step: the numbers that all workers hold alike, in addition
// to the program's buffers. Which samples a step takes follows from them.
//
// Ownership: the worker. Thread: the training thread. Failure: none; a violated order of steps ends the process.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "elastictrain/session.hpp"
#include "supervisor/protocol/plan_messages.h"
#include "train/session/control_lane.h"
#include "train/session/seat.h"
#include "train/session/step_division.h"
#include "train/state/progress.h"

namespace elastictrain::session {

class Course {
 public:
  explicit Course(const DataOptions& data) : data_(data) {}

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
  // The first rank's, in a first broadcast; or an earlier worker's of this process, until this one has a seat.
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
  // The next step is a round in which every worker takes as many batches as it claims (round.h). `claims`: by rank of
  // the current generation, whose shares divide it; each of at least one batch.
  void run_ahead(std::span<const Claim> claims);
  bool runs_ahead() const { return longest_round_ > 1; }
  // A planned generation divides the next step and has its own learning rate.
  void change_with(const protocol::GenerationPlan& plan);
  // From a recovery: learning rates change at a boundary, and its first one is the end of the repeated step.
  void expect_learning_rate(const protocol::GenerationPlan& plan);
  // The shares of workers without gradients count no more.
  void drop_shares_without_gradients(const Seat& seat);

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
