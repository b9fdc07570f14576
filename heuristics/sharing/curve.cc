#include "heuristics/sharing/curve.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace elastictrain::heuristics::sharing {

Curve::Curve(std::vector<Point> points, std::string name, OnHosts on_hosts)
    : name_(std::move(name)), on_hosts_(std::move(on_hosts)), elastic_(points.size() > 1) {
  fill_as_is(points);
  fill_best();
  fill_corners();
}

void Curve::fill_as_is(const std::vector<Point>& points) {
  as_is_.assign(points.back().slots + 1, 0);
  Point before;
  for (const Point& point : points) {
    const double span = point.slots - before.slots;
    for (std::uint32_t slots = before.slots + 1; slots <= point.slots; ++slots) {
      as_is_[slots] = before.rate + (point.rate - before.rate) * (slots - before.slots) / span;
    }
    before = point;
  }
}

void Curve::fill_best() {
  const auto last = std::min<std::size_t>(as_is_.size() - 1, kMaxElasticSlots);
  cap_ = static_cast<std::uint32_t>(
      std::max_element(as_is_.begin(), as_is_.begin() + static_cast<std::ptrdiff_t>(last) + 1) - as_is_.begin());
  best_.assign(as_is_.begin(), as_is_.begin() + cap_ + 1);
  for (std::uint32_t slots = 1; slots <= cap_; ++slots) best_[slots] = std::max(best_[slots], best_[slots - 1]);
  for (std::uint32_t slots = 0; slots <= cap_; ++slots) {
    const double with = best_[std::min(slots + 1, cap_)];
    inverse_.push_back(1 / best_[slots]);
    gain_with_.push_back((with - best_[slots]) / with);
    gain_without_.push_back((with - best_[slots]) / best_[slots]);
  }
}

// The upper hull of what is right of each count: its first corner, and those behind it, which have been found before.
void Curve::fill_corners() {
  constexpr double kSameSlope = 1e-9;
  next_corner_.assign(cap_ + 1, cap_);
  const auto slope = [&](std::uint32_t from, std::uint32_t to) { return (best_[to] - best_[from]) / (to - from); };
  for (std::uint32_t slots = cap_; slots-- > 0;) {
    std::uint32_t corner = slots + 1;
    while (corner < cap_ && slope(corner, next_corner_[corner]) > slope(slots, corner) * (1 + kSameSlope)) {
      corner = next_corner_[corner];
    }
    next_corner_[slots] = corner;
  }
}

double Curve::as_is(std::uint32_t slots) const {
  return as_is_[std::min<std::size_t>(slots, as_is_.size() - 1)];
}

std::optional<double> Curve::on_hosts(std::uint32_t slots, std::uint32_t hosts) const {
  const auto measured = on_hosts_.find(slots);
  if (measured == on_hosts_.end()) return std::nullopt;
  const auto above = measured->second.upper_bound(hosts);
  return above == measured->second.begin() ? 1 : std::prev(above)->second;
}

double Curve::best_at(double slots) const {
  if (slots >= cap_) return best_[cap_];
  const auto below = static_cast<std::uint32_t>(slots);
  return best_[below] + (slots - below) * (best_[below + 1] - best_[below]);
}

}  // namespace elastictrain::heuristics::sharing
