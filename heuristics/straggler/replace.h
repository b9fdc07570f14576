// Purpose: which slow workers are replaced, and whether that helped.
//
// One replacement at a time: of the slowest worker, or of all workers of a slow host, which then move to other hosts.
// After `check_steps` steps of the newcomers they are judged: if they, or whoever has the rank now, are still half as
// slow, it did not help. On the same host the next attempt goes to another host; elsewhere it is the work or the rank
// that is slow, and that rank is left alone for an hour. Pure.
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
  double give_up_s = 900;  // an attempt whose newcomers have not come by then
};

class Replace {
 public:
  // Fills in replacements and reason; the reason says what came of the last attempt when that is known now.
  JobDecision decide(const ClusterView& view, const JobView& job, const std::vector<SlowWorker>& slow,
                     const std::vector<SlowHost>& hosts, const std::vector<double>& slowdowns,
                     const ReplaceOptions& options);

 private:
  struct Attempt {
    std::vector<std::uint64_t> leavers;  // sorted
    std::vector<std::uint64_t> members;  // of that time, sorted
    std::vector<std::uint32_t> ranks;
    std::uint32_t host = 0;
    double slowdown = 1;
    double asked_s = 0;
    double joined_at_steps = -1;  // JobView::steps_done; below 0: not yet
  };
  struct Wish {
    std::vector<SlowWorker> workers;
    std::uint32_t host = 0;
    bool other_host = false;
    double slowdown = 1;
    std::string text;
  };

  std::optional<Reason> check(const ClusterView& view, const JobView& job, const std::vector<double>& slowdowns,
                              const ReplaceOptions& options);
  Reason judge(const ClusterView& view, const JobView& job, const std::vector<double>& slowdowns);
  std::optional<Wish> choose(const ClusterView& view, const JobView& job, const std::vector<SlowWorker>& slow,
                             const std::vector<SlowHost>& hosts);
  JobDecision begin(const ClusterView& view, const JobView& job, const Wish& wish, const ReplaceOptions& options);

  std::optional<Attempt> attempt_;
  std::vector<double> begun_s_;                       // attempts of the last hour
  std::map<std::uint32_t, double> left_alone_until_;  // ranks
  std::map<std::uint32_t, double> suspect_until_;     // hosts on which a replacement did not help
};

}  // namespace elastictrain::heuristics
