// Purpose: remedies for slow workers: shares by speed, and replacement with a check of the result.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "heuristics/policy/decision.h"
#include "heuristics/straggler/detector.h"

// Shares by speed, so that a slow worker arrives at the collective together with the others.
//
// A worker gets a speed of its own when it is reported slow, and loses it when it is as fast as the others again. All
// others keep speed 1, so their noise moves no samples. The speed is 1/slowdown at the present share. It is corrected,
// at most once in `settle_steps`, if that shortens the step by `min_gain`; so a part of the time that does not depend
// on the share is compensated within a few corrections. After two small corrections only a large gain moves samples
// again, or noise would move the last sample back and forth.
//
// After `settle_steps` steps with the new shares the result is checked: where the last worker arrives less than a
// quarter as much earlier as was expected, the shares are what they were, and these workers are left alone for ten
// minutes. What makes them slow is not their samples. Pure.

namespace elastictrain::heuristics {

struct RebalanceOptions {
  double min_gain = 0.02;         // of the time before the collective
  double recovered_below = 0.04;  // slowdown above 1 below which a worker loses its own speed
  std::uint32_t settle_steps = 32;
};

class Rebalance {
 public:
  // The new speeds and the reason, if they are to change.
  struct Change {
    std::vector<WorkerSpeed> speeds;
    Reason reason;
  };
  std::optional<Change> decide(const JobView& job, const std::vector<SlowWorker>& slow,
                               const std::vector<double>& slowdowns, const RebalanceOptions& options, double now_s);

 private:
  using Speeds = std::map<std::uint64_t, double>;
  // Until the last worker arrives at the collective, over steps with the same shares.
  struct Arrivals {
    std::vector<std::uint32_t> shares;  // none: of no view yet
    double steps = 0;
    double sum_s = 0;
    double recent_s = 0;  // of the last few, by when a worker that has become slow was found
    double mean_s() const { return steps > 0 ? sum_s / steps : 0; }
  };
  struct Attempt {
    double before_s = 0;
    double gain = 0;  // that was expected
    std::vector<std::uint32_t> shares;
    Speeds before;
  };

  void watch(const JobView& job);
  std::optional<Change> judge(const JobView& job, const RebalanceOptions& options, double now_s);
  Speeds target_of(const JobView& job, const std::vector<SlowWorker>& slow, const std::vector<double>& slowdowns,
                   const RebalanceOptions& options, double now_s) const;

  Speeds speeds_;  // of the workers with a speed of their own
  Arrivals arrivals_;
  std::optional<Attempt> attempt_;
  std::map<std::uint64_t, double> left_alone_until_s_;
  double changed_at_steps_ = -1e9;  // JobView::steps_done
  std::uint32_t corrections_ = 0;   // small corrections since the last large change
};

// Decides which slow workers are replaced, and evaluates the result.
//
// One replacement at a time: of the slowest worker, or of all workers of a slow host, which then move to other hosts.
// After `check_steps` steps of the joiners they are evaluated. If they, or the present owners of the ranks, are still
// half as slow, the replacement did not help. After an attempt on the same host the next one uses another host. After
// an attempt elsewhere the work of the rank is slow, and that rank is skipped for an hour. Pure.

struct ReplaceOptions {
  double per_hour = 4;  // attempts: a worker or a whole host
  std::uint32_t check_steps = 20;
  double give_up_s = 900;  // for an attempt whose joiners have not joined by then
};

class Replace {
 public:
  // Sets the replacements and the reason. The reason includes the result of the last attempt once it is known.
  JobDecision decide(const ClusterView& view, const JobView& job, const std::vector<SlowWorker>& slow,
                     const std::vector<SlowHost>& hosts, const std::vector<double>& slowdowns,
                     const ReplaceOptions& options);

 private:
  struct Attempt {
    std::vector<std::uint64_t> leavers;  // sorted
    std::vector<std::uint64_t> members;  // at that time, sorted
    std::vector<std::uint32_t> ranks;
    std::uint32_t host = 0;
    double slowdown = 1;
    double asked_s = 0;
    double joined_at_steps = -1;  // JobView::steps_done; below 0: not yet
  };
  struct Proposal {
    std::vector<SlowWorker> workers;
    std::uint32_t host = 0;
    bool other_host = false;
    double slowdown = 1;
    std::string text;
  };

  std::optional<Reason> check(const ClusterView& view, const JobView& job, const std::vector<double>& slowdowns,
                              const ReplaceOptions& options);
  Reason judge(const ClusterView& view, const JobView& job, const std::vector<double>& slowdowns);
  std::optional<Proposal> choose(const ClusterView& view, const JobView& job, const std::vector<SlowWorker>& slow,
                                 const std::vector<SlowHost>& hosts);
  JobDecision begin(const ClusterView& view, const JobView& job, const Proposal& proposal,
                    const ReplaceOptions& options);

  std::optional<Attempt> attempt_;
  std::vector<double> begun_s_;                       // attempts of the last hour
  std::map<std::uint32_t, double> left_alone_until_;  // ranks
  std::map<std::uint32_t, double> suspect_until_;     // hosts on which a replacement did not help
};

}  // namespace elastictrain::heuristics
