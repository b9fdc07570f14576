// Purpose: values over the time of a run of any length in bounded memory: at most kMost buckets of equal width, which
// doubles when the run outgrows them. Pure; no errors: a time that no run has is counted at the nearest one.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace elastictrain::cli::run_report {

// A mean with its weight, and the extremes.
struct Mean {
  double weight = 0;
  double sum = 0;
  double min = 0;
  double max = 0;

  double value() const { return weight > 0 ? sum / weight : 0; }
  void add(const Mean& other) {
    if (other.weight <= 0) return;
    min = weight > 0 ? std::min(min, other.min) : other.min;
    max = weight > 0 ? std::max(max, other.max) : other.max;
    weight += other.weight;
    sum += other.sum;
  }
};

inline Mean mean_of(double value, double weight = 1) {
  return {weight, value * weight, value, value};
}

class Timeline {
 public:
  explicit Timeline(std::size_t most) : most_(most) {}

  void add(double at_s, const Mean& value) {
    if (!std::isfinite(value.sum) || !std::isfinite(value.weight)) return;
    const double at = std::clamp(std::isfinite(at_s) ? at_s : 0, 0.0, kLongest_s);
    while (at >= width_s_ * static_cast<double>(most_)) widen();
    const auto index = static_cast<std::size_t>(at / width_s_);
    if (index >= buckets_.size()) buckets_.resize(index + 1);
    buckets_[index].add(value);
  }

  double width_s() const { return width_s_; }
  const std::vector<Mean>& buckets() const { return buckets_; }
  bool empty() const { return buckets_.empty(); }

  // As wide as a wider one's buckets: widths are powers of two of the same first one.
  void widen_to(double width_s) {
    while (width_s_ < width_s) widen();
  }

 private:
  static constexpr double kLongest_s = 1e10;

  void widen() {
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      if (i % 2 == 0) {
        const Mean even = buckets_[i];
        buckets_[i / 2] = even;
      } else {
        buckets_[i / 2].add(buckets_[i]);
      }
    }
    buckets_.resize((buckets_.size() + 1) / 2);
    width_s_ *= 2;
  }

  std::size_t most_;
  double width_s_ = 0.25;
  std::vector<Mean> buckets_;
};

}  // namespace elastictrain::cli::run_report
