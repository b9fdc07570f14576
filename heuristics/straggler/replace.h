// Purpose: decides which slow workers are replaced, and evaluates the result.
//
// One replacement at a time: of the slowest worker, or of all workers of a slow host, which then move to other hosts.
// After `check_steps` steps of the joiners they are evaluated. If they, or the present owners of the ranks, are still
// half as slow, the replacement did not help. After an attempt on the same host the next one uses another host. After
// an attempt elsewhere the work of the rank is slow, and that rank is skipped for an hour. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "heuristics/policy/decision.h"
#include "heuristics/straggler/hosts.h"

namespace elastictrain::heuristics {

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
