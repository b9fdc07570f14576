#include "heuristics/sweep/search_space.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <random>

namespace elastictrain::heuristics::sweep {
namespace {

constexpr std::size_t kTriesPerDraw = 100;

std::string text_of(double value, bool is_whole) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), is_whole ? "%.0f" : "%.6g", value);
  return text.data();
}

// The standard's distributions differ from library to library; its generator does not.
double fraction(std::mt19937_64& random) {
  return static_cast<double>(random() >> 11) * 0x1p-53;
}

std::string drawn(const Parameter& parameter, std::mt19937_64& random) {
  const double at = fraction(random);
  if (!parameter.range) {
    const auto count = parameter.values.size();
    return parameter.values[std::min(count - 1, static_cast<std::size_t>(at * static_cast<double>(count)))];
  }
  const Range& range = *parameter.range;
  const double value =
      range.is_log ? range.low * std::pow(range.high / range.low, at) : range.low + at * (range.high - range.low);
  return text_of(range.is_whole ? std::round(value) : value, range.is_whole);
}

}  // namespace

std::optional<std::size_t> grid_size(const std::vector<Parameter>& space, std::size_t most) {
  std::size_t size = 1;
  for (const Parameter& parameter : space) {
    if (parameter.range) return std::nullopt;
    size = std::min(most + 1, size * parameter.values.size());
  }
  return size;
}

std::vector<Assignment> grid(const std::vector<Parameter>& space) {
  std::vector<Assignment> all = {{}};
  for (const Parameter& parameter : space) {
    std::vector<Assignment> longer;
    for (const Assignment& before : all) {
      for (const std::string& value : parameter.values) {
        longer.push_back(before);
        longer.back().emplace_back(parameter.name, value);
      }
    }
    all = std::move(longer);
  }
  return all;
}

std::vector<Assignment> draw(const std::vector<Parameter>& space, std::size_t count, std::uint64_t seed) {
  const auto size = grid_size(space, count);
  if (size && *size <= count) return grid(space);
  std::mt19937_64 random(seed);
  std::vector<Assignment> chosen;
  for (std::size_t tries = 0; chosen.size() < count && tries < count * kTriesPerDraw; ++tries) {
    Assignment one;
    for (const Parameter& parameter : space) one.emplace_back(parameter.name, drawn(parameter, random));
    if (std::find(chosen.begin(), chosen.end(), one) == chosen.end()) chosen.push_back(std::move(one));
  }
  return chosen;
}

}  // namespace elastictrain::heuristics::sweep
