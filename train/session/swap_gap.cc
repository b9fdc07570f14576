#include "train/session/swap_gap.h"

#include <algorithm>
#include <utility>

namespace elastictrain::session {
namespace {

constexpr std::size_t kTypicalSteps = 5;

}  // namespace

void SwapGap::committed(Time now) {
  if (generation_ != 0) gaps_us_.push_back(std::chrono::duration<double, std::micro>(now - last_commit_).count());
  last_commit_ = now;
}

void SwapGap::swapped(Generation generation) {
  generation_ = generation;
  gaps_us_.clear();
}

std::optional<protocol::WorkerSwap> SwapGap::take() {
  if (gaps_us_.size() <= kTypicalSteps) return std::nullopt;
  return take_early();
}

std::optional<protocol::WorkerSwap> SwapGap::take_early() {
  const Generation generation = std::exchange(generation_, 0);
  const auto gaps_us = std::exchange(gaps_us_, {});
  if (generation == 0 || gaps_us.size() < 2) return std::nullopt;
  std::vector<double> steps(gaps_us.begin() + 1, gaps_us.end());
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
  std::nth_element(steps.begin(), middle, steps.end());
  return protocol::WorkerSwap{generation, gaps_us.front(), *middle};
}

}  // namespace elastictrain::session
