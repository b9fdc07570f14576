#include "train/session/course.h"

#include <algorithm>
#include <utility>

#include "supervisor/protocol/check.h"
#include "train/session/round.h"

namespace elastictrain::session {

bool Course::data_is_used_up() const {
  if (data_ended_at_ != 0) return true;
  if (data_.max_steps != 0 && progress_.committed_step >= data_.max_steps) return true;
  return data_.sample_count != 0 && next_sampler().epoch >= data_.epochs;
}

bool Course::is_used_up_after(const StepDivision& step, const std::vector<state::WorkerShare>& shares) const {
  Course after = *this;
  after.commit(step, false, shares);
  return after.data_is_used_up();
}

double Course::fraction_of(std::uint64_t epoch) const {
  if (data_.sample_count == 0) return 0;
  const auto& next = progress_.sampler;
  const bool is_current = next.epoch == epoch;
  const std::uint64_t used = is_current ? next.cursor - state::count_of(next.returned) : data_.sample_count;
  return static_cast<double>(used) / static_cast<double>(data_.sample_count);
}

void Course::begin(std::vector<state::WorkerShare> shares, double learning_rate_factor) {
  progress_ = {};
  progress_.sampler.seed = data_.seed;
  progress_.learning_rate = {.from = learning_rate_factor, .to = learning_rate_factor};
  averaged_until_ = 0;
  data_ended_at_ = 0;
  next_shares_ = std::move(shares);
  longest_round_ = 1;
}

void Course::resume(const state::Progress& saved) {
  const auto learning_rate = progress_.learning_rate;
  progress_ = saved;
  progress_.learning_rate = learning_rate;
}

void Course::adopt(const state::TransferHeader& header) {
  progress_ = header.progress;
  next_shares_ = header.next_shares;
  longest_round_ = 1;
  averaged_until_ = header.averaged_until;
  data_ended_at_ = header.data_ended_at;
}

void Course::put_into(state::TransferHeader& header) const {
  header.sample_count = data_.sample_count;
  header.progress = progress_;
  header.next_shares = next_shares_;
  header.averaged_until = averaged_until_;
  header.data_ended_at = data_ended_at_;
}

std::vector<std::uint32_t> Course::next_counts() const {
  std::vector<std::uint32_t> counts;
  for (const auto& share : next_shares_) counts.push_back(share.samples);
  return counts;
}

state::SamplerState Course::next_sampler() const {
  if (!data_.drop_last) return progress_.sampler;
  return state::without_tail(progress_.sampler, data_.sample_count, next_counts());
}

std::optional<state::Progress> Course::dropped_epoch() const {
  if (!data_.drop_last || next_sampler().epoch == progress_.sampler.epoch) return std::nullopt;
  auto progress = progress_;
  progress.sampler.cursor = data_.sample_count;
  progress.sampler.returned.clear();
  return progress;
}

state::Cut Course::cut_next() const {
  return state::cut_step(next_sampler(), data_.sample_count, next_counts(), data_.min_local_samples);
}

void Course::list_samples(const StepDivision& step, std::vector<std::uint64_t>& samples) {
  if (data_.sample_count == 0 || step.my_count == 0) return;
  if (permutation_epoch_ != step.cut.epoch) {
    permutation_ = state::Permutation(data_.sample_count, progress_.sampler.seed, step.cut.epoch);
    permutation_epoch_ = step.cut.epoch;
  }
  samples.reserve(step.my_count);
  for (const auto& [first, count] : step.cut.part(step.my_rank)) {
    for (std::uint64_t position = first; position < first + count; ++position) {
      samples.push_back(data_.shuffle ? permutation_.at(position) : position);
    }
  }
}

void Course::commit(const StepDivision& step, bool averages, const std::vector<state::WorkerShare>& shares) {
  const auto sampler = next_sampler();
  ET_CHECK(data_.sample_count == 0 || step.cut.epoch == sampler.epoch,
           "a step takes its samples from the current epoch");
  progress_.committed_step += step.steps;
  if (averages) averaged_until_ = progress_.committed_step;
  progress_.samples_used += step.counted;
  progress_.sampler = state::advance(sampler, data_.sample_count, step.cut, step.uncounted);
  for (Step passed = 0; passed < step.steps; ++passed) progress_.learning_rate.advance();
  if (next_learning_rate_) {
    progress_.learning_rate.retarget(next_learning_rate_->to, next_learning_rate_->length_steps);
    next_learning_rate_.reset();
  }
  next_shares_ = shares;
  longest_round_ = 1;
  ET_CHECK(averaged_until_ <= progress_.committed_step, "no later step than the committed one made replicas differ");
}

void Course::run_ahead(std::span<const Claim> claims) {
  Step left = Round::kMaxBatches;
  if (data_.max_steps != 0) left = data_.max_steps - std::min(progress_.committed_step, data_.max_steps - 1);
  for (std::size_t rank = 0; rank < next_shares_.size(); ++rank) {
    auto& samples = next_shares_[rank].samples;
    if (samples == 0) continue;
    const auto most = std::clamp<Step>(Round::kMaxSamples / samples, 1, left);
    const auto batches = std::min<Step>(claims[rank].batches, most);
    samples *= static_cast<std::uint32_t>(batches);
    longest_round_ = std::max(longest_round_, batches);
  }
}

void Course::change_with(const protocol::GenerationPlan& plan) {
  next_shares_ = first_shares(plan);
  longest_round_ = 1;
  progress_.learning_rate.retarget(plan.learning_rate_factor, plan.learning_rate_ramp_steps);
}

void Course::expect_learning_rate(const protocol::GenerationPlan& plan) {
  next_learning_rate_ = {.to = plan.learning_rate_factor, .length_steps = plan.learning_rate_ramp_steps};
}

void Course::drop_shares_without_gradients(const Seat& seat) {
  for (auto& share : next_shares_) share.is_lost = share.is_lost || !seat.counts(share.worker);
}

}  // namespace elastictrain::session
