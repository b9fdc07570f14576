// Purpose: the policies "efficiency" and "cost": a search for the most economical size, which stays there until the
// job changes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heuristics/autoscale/search.h"
#include "heuristics/autoscale/search_state.h"
#include "heuristics/policy/per_job.h"
#include "heuristics/policy/policy.h"

// The policy around the search for a size (search.h), with an objective of the derived class: when a size
// counts as measured, when the search settles, what wakes it, and when a growth is taken back.
//
// Pure, as every policy: no clock, no I/O; the state of a job is the caller's.

namespace elastictrain::heuristics {

class SearchPolicy : public PerJobPolicy<SearchState> {
 public:
  explicit SearchPolicy(SearchSettings settings) : settings_(settings) {}

 protected:
  virtual Objective objective(const ClusterView& view, const JobView& job) const = 0;
  virtual std::string problem(const JobView&) const { return ""; }  // why it cannot decide; empty: it can
  // The numbers that explain why `from` is or is not left for `to`.
  virtual std::string comparison(const Measured& from, const Measured& to) const = 0;

  JobDecision decide_job(const ClusterView& view, const JobView& job, SearchState& state, Rng&) const final;

 private:
  bool no_longer_pays(const ClusterView& view, const JobView& job, const SearchState& state) const;
  static void take_back(const JobView& job, SearchState& state, JobDecision& decision);
  void search(const ClusterView& view, const JobView& job, const SearchLimits& limits, SearchState& state,
              JobDecision& decision) const;
  void count_gain(const std::vector<Measured>& sizes, const Measured& best, SearchState& state) const;
  static const Measured& at(const std::vector<Measured>& sizes, std::uint32_t workers);
  static Reason too_few(const JobView& job, const SearchState& state);
  bool precise(const SearchLimits& limits, const SearchState& state, std::uint32_t workers) const;
  bool undecided(const JobView& job, const SearchLimits& limits, const std::vector<Measured>& sizes,
                 const Measured& best, const SearchState& state, JobDecision& decision) const;
  static bool measures_better(const JobView& job, const Measured& best, const SearchState& state);
  void settle(const ClusterView& view, const std::vector<Measured>& sizes, const SearchLimits& limits,
              SearchState& state) const;
  void wake(const ClusterView& view, const JobView& job, const SearchLimits& limits, const Objective& value,
            SearchState& state) const;
  void follow_change(const ClusterView& view, const JobView& job, const SearchLimits& limits, const Objective& value,
                     SearchState& state) const;
  bool overtaken(const Objective& value, const std::vector<Measured>& sizes, const SearchState& state) const;
  void stay(const ClusterView& view, const JobView& job, const SearchLimits& limits, const Objective& value,
            const std::vector<Measured>& sizes, SearchState& state, JobDecision& decision) const;
  static bool pays_beyond(SearchLimits limits, const Objective& value, const std::vector<Measured>& sizes);
  std::string about(const std::vector<Measured>& sizes, const Measured& size) const;
  static void move(const ClusterView& view, const JobView& job, SearchState& state, std::uint32_t workers,
                   Reason reason, JobDecision& decision);

  SearchSettings settings_;
};

// The parameters of every such policy: its settings begin with these.
template <class Settings>
void add_search_parameters(SettingsTable<Settings>& table) {
  table.number("tolerance", &Settings::tolerance, {0.001, 0.5}, "", "relative gain below which no other size is tried")
      .number("confidence", &Settings::confidence, {0.5, 10}, "", "standard deviations by which two sizes must differ")
      .number("change", &Settings::change, {0.01, 1}, "",
              "relative change of throughput at the settled size that starts a new search")
      .number("quiet_s", &Settings::quiet_s, {0, 1e6}, "seconds",
              "minimum time to the next search after one that changed nothing; doubles with each")
      .number("give_up_s", &Settings::give_up_s, {1, 1e6}, "seconds",
              "time after which workers that did not come are not asked for, for an hour");
}

// The policies that find the most economical size and stay there. "efficiency" grows while the marginal
// efficiency exceeds a target. "cost" weighs a utility of finishing against prices. Both use one search (search.h) with
// their own objective (search.h).
//
// Differences from Or et al. 2020 (policy "or"): sizes are doubled and the gaps are then narrowed, instead of using a
// fixed step. A verdict is given when noise allows it, after five steps if the difference is clear. A size is tried
// only if its possible gain until the end of the job exceeds the cost of trying it. If the steps change while its
// workers start and that no longer holds, it is given up. Once settled, only a change of the job's own behaviour or
// limits starts a new search.

PolicySpec efficiency_policy();
PolicySpec cost_policy();

}  // namespace elastictrain::heuristics
