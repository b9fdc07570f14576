#include "train/builtin/evaluation.h"

#include <algorithm>
#include <chrono>

namespace elastictrain::train {

void BackgroundEvaluation::start(std::uint64_t epoch, std::span<const float> parameters) {
  if (running_.valid()) return;
  epoch_ = epoch;
  snapshot_.assign(parameters.begin(), parameters.end());
  running_ = std::async(std::launch::async, [this] { return model_.evaluate(snapshot_); });
}

std::optional<BackgroundEvaluation::Outcome> BackgroundEvaluation::poll() {
  if (!running_.valid()) return std::nullopt;
  if (running_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return std::nullopt;
  return Outcome{epoch_, running_.get()};
}

std::optional<BackgroundEvaluation::Outcome> BackgroundEvaluation::wait() {
  if (!running_.valid()) return std::nullopt;
  const auto begin = std::chrono::steady_clock::now();
  running_.wait_for(may_wait_);
  may_wait_ -= std::min(may_wait_, std::chrono::steady_clock::now() - begin);
  return poll();
}

Score BackgroundEvaluation::evaluate_now(std::span<const float> parameters) {
  if (running_.valid()) running_.wait();
  running_ = {};
  return model_.evaluate(parameters);
}

}  // namespace elastictrain::train
