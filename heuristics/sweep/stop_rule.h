// Purpose: early feedback in a search over parameters: which trials are not worth their slots any more, from what all
// of them have reported so far. Pure: the same reports give the same verdicts, in whatever order they arrived.
//
// Successive halving (Jamieson and Talwalkar 2016), without waiting: with N trials and a factor f, only ceil(N/f) of
// them go on past `first` reports, ceil(N/f²) past first·f, and so on. A trial is judged by its best report up to
// there. It is stopped as soon as so many others are better that it cannot be among those that go on, and not before:
// trials that have not come so far may still be worse. So the outcome is that of halving in rounds.
//
// The median rule (Golovin et al. 2017, Vizier): a trial is stopped after n reports if its best one is worse than the
// median, over the others that have n reports, of the mean of their first n.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace elastictrain::heuristics::sweep {

struct StopRule {
  enum class Kind { kNone, kHalving, kMedian };
  Kind kind = Kind::kHalving;
  std::uint64_t first = 1;   // reports after which a trial is judged first, ≥ 1
  std::uint64_t factor = 3;  // of halving, ≥ 2
  bool higher_is_better = true;
};

struct Trial {
  std::vector<double> reports;  // of the metric, oldest first; what is no number is worse than every number
  bool has_ended = false;       // it reports nothing more, and is not stopped
  bool has_failed = false;      // it ended, and what it reported does not count
};

struct Verdict {
  std::size_t trial = 0;  // its index
  std::string reason;
};

// The trials to stop now, in the order of their indices. Those that were stopped before are given as they were then, so
// that their reports count; they are in the result again.
std::vector<Verdict> trials_to_stop(const StopRule& rule, const std::vector<Trial>& trials);

bool is_better(const StopRule& rule, double one, double other);

// The best of the first `count` reports. There is one.
double best_of(const StopRule& rule, const std::vector<double>& reports, std::size_t count);

// The trials that have reported something and have not failed, the best one first; equal ones by their index.
std::vector<std::size_t> ranking(const StopRule& rule, const std::vector<Trial>& trials);

}  // namespace elastictrain::heuristics::sweep
