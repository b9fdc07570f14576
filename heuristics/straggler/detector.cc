#include "heuristics/straggler/detector.h"

#include <algorithm>

namespace elastictrain::heuristics {
namespace {

double nth(std::vector<double>& values, std::size_t n) {
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(n);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

}  // namespace

double lower_median(std::vector<double>& values) {
  return values.empty() ? 0 : nth(values, (values.size() - 1) / 2);
}

double middle_median(std::vector<double>& values) {
  if (values.empty()) return 0;
  const double upper = nth(values, values.size() / 2);
  return values.size() % 2 == 1 ? upper : (upper + nth(values, values.size() / 2 - 1)) / 2;
}

}  // namespace elastictrain::heuristics
