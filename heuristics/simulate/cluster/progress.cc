#include "heuristics/simulate/cluster/progress.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>

namespace elastictrain::heuristics::cluster {

double muri_overhead_s(const std::string& model, std::uint32_t slots) {
  using Row = std::array<double, 6>;  // on 1, 2, 4, 8, 16, 32 slots
  static const std::map<std::string, Row> table = {
      {"vgg16", {7, 7, 8, 9, 9, 10}},     {"vgg19", {7, 7, 8, 9, 10, 10}},
      {"resnet18", {4, 5, 5, 7, 7, 7}},   {"shufflenet_v2_x1_0", {4, 4, 5, 5, 7, 8}},
      {"a2c", {38, 39, 39, 46, 46, 46}},  {"dqn", {5, 5, 6, 6, 8, 8}},
      {"bert", {10, 10, 10, 10, 10, 10}}, {"gpt2", {10, 10, 10, 10, 10, 10}}};
  const auto row = table.find(model);
  if (row == table.end()) return -1;
  std::size_t column = 0;
  while ((2U << column) <= slots && column + 1 < row->second.size()) ++column;
  return row->second[column];
}

double Progress::rate(double slots) const {
  if (slots <= 0) return 0;
  return speed_ * (as_is_ ? curve_->as_is(static_cast<std::uint32_t>(slots)) / slowdown_ : curve_->best_at(slots));
}

void Progress::settle(double now_s) {
  while (!soon_.empty() && soon_.front().ready_s <= now_s) {
    const Batch batch = soon_.front();
    soon_.erase(soon_.begin());
    work_ -= (batch.ready_s - since_s_) * rate(counting_);
    since_s_ = batch.ready_s;
    counting_ += batch.slots;
  }
  work_ = std::max(0.0, work_ - (now_s - since_s_) * rate(counting_));
  since_s_ = now_s;
}

void Progress::charge(double now_s, double overhead_s) {
  work_ -= std::max(0.0, now_s - since_s_ - overhead_s) * rate(counting_);
  since_s_ = now_s;
}

// The newest slots go first: they may not count yet.
void Progress::take(double slots) {
  while (slots > 0 && !soon_.empty()) {
    const double taken = std::min(slots, soon_.back().slots);
    slots -= taken;
    soon_.back().slots -= taken;
    if (soon_.back().slots <= 0) soon_.pop_back();
  }
  counting_ = std::max(0.0, counting_ - slots);
}

void Progress::add(double now_s, double slots, const Cost& cost) {
  const bool comes_back = started_ && held_ == 0;
  const double wait_s = cost.kind != Cost::Kind::kSwap ? 0
                        : comes_back                   ? std::min(kResume_s, cost.start_s)
                                                       : cost.start_s;
  if (wait_s <= 0) {
    counting_ += slots;
  } else {
    soon_.push_back({now_s + wait_s, slots});
    std::stable_sort(soon_.begin(), soon_.end(), [](const Batch& a, const Batch& b) { return a.ready_s < b.ready_s; });
  }
}

void Progress::set_slots(double now_s, double slots, const Cost& cost) {
  if (slots == held_) return;
  if (cost.kind == Cost::Kind::kMuri) slowdown_ = kMuriSlowdown;
  settle(now_s);
  if (slots < held_) {
    take(held_ - slots);
  } else {
    add(now_s, slots - held_, cost);
  }
  if (slots == 0) counting_ = 0;
  if (cost.kind == Cost::Kind::kRestart && cost.start_s > 0) {
    soon_.clear();
    counting_ = 0;
    if (slots > 0) soon_.push_back({now_s + cost.start_s, slots});
  } else if (soon_.empty()) {
    counting_ = slots;
  }
  held_ = slots;
  started_ = started_ || slots > 0;
}

void Progress::set_speed(double now_s, double speed) {
  if (speed == speed_) return;
  settle(now_s);
  speed_ = speed;
}

double Progress::remaining(double now_s) const {
  Progress then = *this;
  then.settle(now_s);
  return then.work_;
}

double Progress::end_s() const {
  double work = work_, since_s = since_s_, counting = counting_;
  for (const Batch& batch : soon_) {
    const double by_then = (batch.ready_s - since_s) * rate(counting);
    if (by_then >= work) break;
    work -= by_then;
    since_s = batch.ready_s;
    counting += batch.slots;
  }
  const double rate_now = rate(counting);
  return rate_now > 0 ? since_s + work / rate_now : std::numeric_limits<double>::infinity();
}

}  // namespace elastictrain::heuristics::cluster
