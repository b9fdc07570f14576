#include "heuristics/scavenger/search.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace elastictrain::heuristics {
namespace {

// Lowest, geometric middle and highest of the values.
std::vector<std::uint32_t> ends_and_middle(const std::vector<std::uint32_t>& sizes) {
  if (sizes.size() <= 3) return sizes;
  const double middle = std::sqrt(static_cast<double>(sizes.front()) * sizes.back());
  const auto nearest = std::min_element(sizes.begin() + 1, sizes.end() - 1, [&](std::uint32_t a, std::uint32_t b) {
    return std::abs(std::log(a / middle)) < std::abs(std::log(b / middle));
  });
  return {sizes.front(), *nearest, sizes.back()};
}

double distance(const SearchPoint& a, const SearchPoint& b) {
  const auto logarithm = [](std::uint32_t value) { return std::log(std::max(value, 1U)); };
  return std::abs(logarithm(a.workers) - logarithm(b.workers)) +
         std::abs(logarithm(a.local_batch) - logarithm(b.local_batch));
}

std::vector<std::uint32_t> allowed_batches(const SearchSpace& space, std::uint32_t workers) {
  std::vector<std::uint32_t> batches;
  for (const auto batch : space.local_batches)
    if (space.allows({workers, batch})) batches.push_back(batch);
  return batches;
}

double universal_shape(const UniversalCoefficients& c, double workers, double batch, double largest) {
  const double compute = c.fixed + batch / largest;
  const double communicate = 2 * c.ring * (workers - 1) / workers;
  return std::pow(std::pow(compute, c.overlap) + std::pow(communicate, c.overlap), 1 / c.overlap);
}

}  // namespace

bool SearchSpace::allows(const SearchPoint& point) const {
  return max_global == 0 || std::uint64_t{point.workers} * point.local_batch <= max_global;
}

std::vector<SearchPoint> allowed_points(const SearchSpace& space) {
  std::vector<SearchPoint> points;
  for (const auto workers : space.workers)
    for (const auto batch : allowed_batches(space, workers)) points.push_back({workers, batch});
  return points;
}

std::vector<std::uint32_t> geometric_sizes(std::uint32_t min, std::uint32_t max, std::uint32_t count) {
  std::set<std::uint32_t> sizes{std::max(min, 1U), std::max({min, max, 1U})};
  const double ratio = static_cast<double>(*sizes.rbegin()) / *sizes.begin();
  const std::uint32_t first = *sizes.begin();
  for (std::uint32_t i = 1; i + 1 < count; ++i)
    sizes.insert(static_cast<std::uint32_t>(std::lround(first * std::pow(ratio, i / (count - 1.0)))));
  return {sizes.begin(), sizes.end()};
}

std::vector<SearchPoint> search_points(const SearchSpace& space, SearchMode mode, const SearchPoint& now) {
  std::vector<std::vector<SearchPoint>> rows;
  for (const auto workers : mode == SearchMode::kPartial ? ends_and_middle(space.workers) : space.workers) {
    auto batches = allowed_batches(space, workers);
    if (mode == SearchMode::kPartial) batches = ends_and_middle(batches);
    if (batches.empty()) continue;
    rows.emplace_back();
    for (const auto batch : batches) rows.back().push_back({workers, batch});
  }
  if (rows.empty()) return {};
  if (mode == SearchMode::kUniversal) {
    SearchPoint nearest = rows.front().front();
    for (const auto& row : rows)
      for (const auto& point : row)
        if (distance(point, now) < distance(nearest, now)) nearest = point;
    return {nearest};
  }
  if (distance(rows.back().front(), now) < distance(rows.front().front(), now)) std::reverse(rows.begin(), rows.end());
  std::vector<SearchPoint> plan;
  for (auto& row : rows) {
    const SearchPoint from = plan.empty() ? now : plan.back();
    if (distance(row.back(), from) < distance(row.front(), from)) std::reverse(row.begin(), row.end());
    plan.insert(plan.end(), row.begin(), row.end());
  }
  return plan;
}

std::optional<SearchPoint> next_point(const std::vector<SearchPoint>& plan, const std::vector<SearchPoint>& measured) {
  const auto open = std::find_if(plan.begin(), plan.end(), [&](const SearchPoint& point) {
    return std::find(measured.begin(), measured.end(), point) == measured.end();
  });
  return open == plan.end() ? std::nullopt : std::optional(*open);
}

std::vector<StepTimePoint> universal_points(const SearchSpace& space, const StepTimePoint& measured,
                                            const UniversalCoefficients& coefficients) {
  const double max = space.local_batches.empty() ? 0 : space.local_batches.back();
  const double largest = std::max({measured.local_batch, max, 1.0});
  const double workers = std::max(measured.workers, 1U);
  const double factor =
      measured.seconds / universal_shape(coefficients, workers, std::max(measured.local_batch, 0.0), largest);
  std::vector<StepTimePoint> points;
  for (const auto size : space.workers)
    for (const auto batch : space.local_batches)
      points.push_back({size, double(batch), factor * universal_shape(coefficients, size, batch, largest)});
  return points;
}

}  // namespace elastictrain::heuristics
