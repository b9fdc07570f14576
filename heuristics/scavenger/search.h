// Purpose: chooses the numbers of workers and batches to measure before the models are fitted (Scavenger, algorithms
// F).
//
// full: every one that the user allows. partial: the extremes and the middles between them; the models predict the
// rest.
// universal: a single one, which scales coefficients common to all models. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "heuristics/scavenger/step_time_model.h"

namespace elastictrain::heuristics {

struct SearchPoint {
  std::uint32_t workers = 0;
  std::uint32_t local_batch = 0;
  friend bool operator==(const SearchPoint&, const SearchPoint&) = default;
};

struct SearchSpace {
  std::vector<std::uint32_t> workers;        // increasing
  std::vector<std::uint32_t> local_batches;  // increasing
  std::uint64_t max_global = 0;              // 0: no limit
  bool allows(const SearchPoint& point) const;
};

// By workers, then by batch.
std::vector<SearchPoint> allowed_points(const SearchSpace& space);

// About `count` sizes from `min` to `max`, both included, each larger than the previous one by the same factor.
std::vector<std::uint32_t> geometric_sizes(std::uint32_t min, std::uint32_t max, std::uint32_t count);

enum class SearchMode : std::uint8_t { kFull, kPartial, kUniversal };

// The points that `mode` measures, ordered so that the number of workers changes as rarely as possible, starting at the
// end nearer to `now`. If `now` is not in the space, universal takes the allowed point nearest to it.
std::vector<SearchPoint> search_points(const SearchSpace& space, SearchMode mode, const SearchPoint& now);

// The first of these that is not measured yet; nothing when the search is over.
std::optional<SearchPoint> next_point(const std::vector<SearchPoint>& plan, const std::vector<SearchPoint>& measured);

// Coefficients of step time common to all models, as means over the six models of Pollux's T4 tables (one worker per
// host): computing in proportion to fixed + batch / largest batch, a ring in proportion to `ring`, and the overlap.
struct UniversalCoefficients {
  double fixed = 0.115;
  double ring = 0.316;
  double overlap = 3;
};

// Step times of the whole space predicted by the coefficients and one measurement, for StepTimeModel::fit. The error is
// about 30 % on a model that the coefficients do not come from: enough to start a search, not to end it.
std::vector<StepTimePoint> universal_points(const SearchSpace& space, const StepTimePoint& measured,
                                            const UniversalCoefficients& coefficients = {});

}  // namespace elastictrain::heuristics
