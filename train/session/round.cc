#include "train/session/round.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace elastictrain::session {
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

}  // namespace elastictrain::session
