#include "train/session/run_progress.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "supervisor/protocol/check.h"

namespace elastictrain::session {

std::vector<float> StepDivision::weights(const Assignment& assignment) const {
  std::vector<float> weights(assignment.world_size());
  for (std::size_t rank = 0; rank < weights.size(); ++rank) {
    const auto of_rank = [&](const state::WorkerShare& share) {
      return share.worker == assignment.shares[rank].worker;
    };
    const auto share = std::find_if(shares.begin(), shares.end(), of_rank);
    if (share == shares.end() || counted == 0) continue;
    const auto count = static_cast<double>(counts[static_cast<std::size_t>(share - shares.begin())]);
    weights[rank] = static_cast<float>(count / static_cast<double>(counted));
  }
  return weights;
}

std::uint32_t StepDivision::workers_with_samples() const {
  const auto works = [](const state::WorkerShare& share) { return share.samples != 0 && !share.is_lost; };
  return static_cast<std::uint32_t>(std::count_if(shares.begin(), shares.end(), works));
}

double StepDivision::mean_inverse_share() const {
  double sum = 0;
  double workers = 0;
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    const auto samples = static_cast<double>(cut.count(rank));
    if (samples == 0 || shares[rank].is_lost) continue;
    sum += 1 / samples;
    ++workers;
  }
  return workers > 0 ? sum / workers : 0;
}

void StepDivision::keep_used(std::span<const std::uint64_t> used_by_rank) {
  state::Cut kept{.epoch = cut.epoch, .first_of_epoch = cut.first_of_epoch};
  uncounted.clear();
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    const std::uint64_t taken = std::min(used_by_rank[rank], counts[rank]);
    const auto part = cut.part(rank);
    for (const auto& piece : state::slice(part, 0, taken)) kept.pieces.push_back(piece);
    for (const auto& piece : state::slice(part, taken, cut.count(rank) - taken)) uncounted.push_back(piece);
    kept.counts.push_back(taken);
    kept.total += taken;
  }
  counted = kept.total;
  if (my_count != 0) my_count = kept.counts[my_rank];
  used = std::move(kept);
}

StepDivision divide_step(const RunProgress& run_progress, const Assignment& assignment, WorkerId self,
                         bool inputs_are_kept) {
  StepDivision step{.cut = run_progress.cut_next(), .shares = run_progress.next_shares()};
  for (std::size_t rank = 0; rank < step.shares.size(); ++rank) {
    const WorkerId worker = step.shares[rank].worker;
    // Without copies no worker can repeat an all-reduce: the step is committed without samples, on all workers alike.
    const bool counts =
        !step.shares[rank].is_lost && (!assignment.repeats_step || (inputs_are_kept && assignment.counts(worker)));
    if (worker == self) step.my_rank = rank;
    step.counts.push_back(counts ? step.cut.count(rank) : 0);
    if (counts) {
      step.counted += step.cut.count(rank);
      if (worker == self) step.my_count = step.cut.count(rank);
    } else {
      const auto part = step.cut.part(rank);
      step.uncounted.insert(step.uncounted.end(), part.begin(), part.end());
    }
  }
  ET_CHECK(step.counted <= step.cut.total, "a step counts no more samples than it takes");
  ET_CHECK(step.my_count <= step.counted, "a worker's share is part of the samples that count");
  return step;
}

namespace {

// A worker that becomes faster need not wait until they meet.
constexpr double kSpare = 1.5;

std::uint32_t batches_in(const RoundPace& pace) {
  if (!pace.may_run_ahead) return 0;
  if (pace.own_step <= Clock::duration::zero()) return 1;
  const double batches = kSpare * static_cast<double>(pace.length.count()) / static_cast<double>(pace.own_step.count());
  return static_cast<std::uint32_t>(std::clamp(std::ceil(batches), 1.0, static_cast<double>(Round::kMaxBatches)));
}

}  // namespace

void Round::begin(std::vector<std::uint64_t> samples, std::uint64_t allotted, std::uint64_t batch, std::uint64_t least,
                  const RoundPace& pace) {
  samples_ = std::move(samples);
  allotted_ = allotted;
  batch_ = batch == 0 ? allotted : batch;
  least_ = least;
  used_ = taken_ = 0;
  batches_ = 0;
  until_ = pace.now + pace.length;
}

void Round::take_batch(const RoundPace& pace) {
  taken_ = std::min(batch_, left());
  if (left() - taken_ < least_) taken_ = left();
  used_ += taken_;
  ++batches_;
  // A batch that would end later than this one counts as too late by half of its time.
  const bool is_late = pace.now + pace.own_step * 3 / 2 >= until_;
  is_last_ = left() == 0 || is_late || pace.must_meet;
}

std::span<const std::uint64_t> Round::samples() const {
  if (samples_.empty()) return {};
  return std::span(samples_).subspan(used_ - taken_, taken_);
}

Claim Round::claim(const RoundPace& pace) const {
  return {.used = used_, .steps = batches_, .batches = batches_in(pace)};
}

bool RunProgress::data_is_used_up() const {
  if (data_ended_at_ != 0) return true;
  if (data_.max_steps != 0 && progress_.committed_step >= data_.max_steps) return true;
  return data_.sample_count != 0 && next_sampler().epoch >= data_.epochs;
}

bool RunProgress::is_used_up_after(const StepDivision& step, const std::vector<state::WorkerShare>& shares) const {
  RunProgress after = *this;
  after.commit(step, false, shares);
  return after.data_is_used_up();
}

double RunProgress::fraction_of(std::uint64_t epoch) const {
  if (data_.sample_count == 0) return 0;
  const auto& next = progress_.sampler;
  const bool is_current = next.epoch == epoch;
  const std::uint64_t used = is_current ? next.cursor - state::count_of(next.returned) : data_.sample_count;
  return static_cast<double>(used) / static_cast<double>(data_.sample_count);
}

void RunProgress::begin(std::vector<state::WorkerShare> shares, double learning_rate_factor) {
  progress_ = {};
  progress_.sampler.seed = data_.seed;
  progress_.learning_rate = {.from = learning_rate_factor, .to = learning_rate_factor};
  averaged_until_ = 0;
  data_ended_at_ = 0;
  next_shares_ = std::move(shares);
  longest_round_ = 1;
}

void RunProgress::resume(const state::Progress& saved) {
  const auto learning_rate = progress_.learning_rate;
  progress_ = saved;
  progress_.learning_rate = learning_rate;
}

void RunProgress::adopt(const state::TransferHeader& header) {
  progress_ = header.progress;
  next_shares_ = header.next_shares;
  longest_round_ = 1;
  averaged_until_ = header.averaged_until;
  data_ended_at_ = header.data_ended_at;
}

void RunProgress::put_into(state::TransferHeader& header) const {
  header.sample_count = data_.sample_count;
  header.progress = progress_;
  header.next_shares = next_shares_;
  header.averaged_until = averaged_until_;
  header.data_ended_at = data_ended_at_;
}

std::vector<std::uint32_t> RunProgress::next_counts() const {
  std::vector<std::uint32_t> counts;
  for (const auto& share : next_shares_) counts.push_back(share.samples);
  return counts;
}

state::SamplerState RunProgress::next_sampler() const {
  if (!data_.drop_last) return progress_.sampler;
  return state::without_tail(progress_.sampler, data_.sample_count, next_counts());
}

std::optional<state::Progress> RunProgress::dropped_epoch() const {
  if (!data_.drop_last || next_sampler().epoch == progress_.sampler.epoch) return std::nullopt;
  auto progress = progress_;
  progress.sampler.cursor = data_.sample_count;
  progress.sampler.returned.clear();
  return progress;
}

state::Cut RunProgress::cut_next() const {
  return state::cut_step(next_sampler(), data_.sample_count, next_counts(), data_.min_local_samples);
}

void RunProgress::list_samples(const StepDivision& step, std::vector<std::uint64_t>& samples) {
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

void RunProgress::commit(const StepDivision& step, bool averages, const std::vector<state::WorkerShare>& shares) {
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

void RunProgress::run_ahead(std::span<const Claim> claims) {
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

void RunProgress::change_with(const protocol::GenerationPlan& plan) {
  next_shares_ = first_shares(plan);
  longest_round_ = 1;
  progress_.learning_rate.retarget(plan.learning_rate_factor, plan.learning_rate_ramp_steps);
}

void RunProgress::expect_learning_rate(const protocol::GenerationPlan& plan) {
  next_learning_rate_ = {.to = plan.learning_rate_factor, .length_steps = plan.learning_rate_ramp_steps};
}

void RunProgress::drop_shares_without_gradients(const Assignment& assignment) {
  for (auto& share : next_shares_) share.is_lost = share.is_lost || !assignment.counts(share.worker);
}

// The next steps' samples as they will be if nothing else happens.
namespace {

std::vector<std::uint32_t> counts_of(std::span<const state::WorkerShare> shares) {
  std::vector<std::uint32_t> counts;
  for (const auto& share : shares) counts.push_back(share.samples);
  return counts;
}

class Preview {
 public:
  Preview(const DataOptions& data, const state::Progress& progress)
      : data_(data), sampler_(progress.sampler), step_(progress.committed_step) {}

  bool is_over() const {
    if (data_.max_steps != 0 && step_ >= data_.max_steps) return true;
    return data_.sample_count != 0 && sampler_.epoch >= data_.epochs;
  }
  void pass(const state::Cut& cut, std::span<const state::Interval> uncounted = {}) {
    sampler_ = state::advance(sampler_, data_.sample_count, cut, uncounted);
    ++step_;
  }
  void skip_tail(std::span<const state::WorkerShare> shares) {
    if (data_.drop_last) sampler_ = state::without_tail(sampler_, data_.sample_count, counts_of(shares));
  }
  state::Cut cut(std::span<const state::WorkerShare> shares) const {
    return state::cut_step(sampler_, data_.sample_count, counts_of(shares), data_.min_local_samples);
  }
  void list(const state::Cut& cut, std::size_t rank, std::vector<std::uint64_t>& samples) {
    if (data_.sample_count == 0) return;
    const state::Permutation order(data_.sample_count, sampler_.seed, cut.epoch);
    for (const auto& [first, count] : cut.part(rank)) {
      for (std::uint64_t position = first; position < first + count; ++position) {
        samples.push_back(data_.shuffle ? order.at(position) : position);
      }
    }
  }

 private:
  const DataOptions& data_;
  state::SamplerState sampler_;
  Step step_;
};

// This worker's rank among the shares, if it has a part that counts.
std::optional<std::size_t> rank_among(std::span<const state::WorkerShare> shares, WorkerId self) {
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    if (shares[rank].worker == self && !shares[rank].is_lost) return rank;
  }
  return std::nullopt;
}

}  // namespace

LookAhead RunProgress::look_ahead(WorkerId self, std::uint32_t batches, const StepDivision* open,
                                  std::span<const std::vector<state::WorkerShare>> upcoming) const {
  Preview preview(data_, progress_);
  LookAhead ahead;
  if (data_ended_at_ != 0) return ahead;
  if (open != nullptr) preview.pass(open->cut, open->uncounted);
  std::size_t next = 0;
  const auto* shares = open == nullptr ? &next_shares_ : &upcoming[0];
  while (ahead.batch_sizes.size() < batches) {
    preview.skip_tail(*shares);
    if (preview.is_over()) break;
    const auto cut = preview.cut(*shares);
    const auto rank = rank_among(*shares, self);
    if (rank) preview.list(cut, *rank, ahead.samples);
    ahead.batch_sizes.push_back(rank ? cut.count(*rank) : 0);
    preview.pass(cut);
    if (shares == &next_shares_) {
      shares = &upcoming[0];
    } else {
      next = std::min(next + 1, upcoming.size() - 1);
      shares = &upcoming[next];
    }
  }
  return ahead;
}

}  // namespace elastictrain::session
