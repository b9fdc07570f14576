// Purpose: the combinations of parameter values that a sweep tries: all of them, or random draws. Pure.
//
// The same seed gives the same draws with every compiler and on every machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace elastictrain::heuristics::sweep {

struct Range {
  double low = 0;
  double high = 0;
  bool is_log = false;    // uniform in the logarithm; low is above 0
  bool is_whole = false;  // rounded
};

struct Parameter {
  std::string name;
  std::vector<std::string> values;  // to choose from, without a range
  std::optional<Range> range;
};

// The values by the parameters' names, in their order.
using Assignment = std::vector<std::pair<std::string, std::string>>;

// Of all combinations; none if a range has no end of them. Stops counting at `most` + 1.
std::optional<std::size_t> grid_size(const std::vector<Parameter>& space, std::size_t most);

// All combinations, the last parameter changing fastest. Of a space without ranges.
std::vector<Assignment> grid(const std::vector<Parameter>& space);

// `count` combinations, no two alike; fewer where the space has no more of them.
std::vector<Assignment> draw(const std::vector<Parameter>& space, std::size_t count, std::uint64_t seed);

}  // namespace elastictrain::heuristics::sweep
