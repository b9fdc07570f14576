#include "heuristics/straggler/policy.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "heuristics/policy/per_job.h"
#include "heuristics/straggler/hosts.h"
#include "heuristics/straggler/published.h"
#include "heuristics/straggler/rebalance.h"
#include "heuristics/straggler/replace.h"
#include "heuristics/straggler/robust.h"

namespace elastictrain::heuristics {
namespace {

enum class Action : std::uint8_t { kNone, kReport, kRebalance, kReplace };

struct Watch {
  std::unique_ptr<Detector> detector;  // none before the first view
  Rebalance rebalance;
  Replace replace;

  Watch() = default;
  Watch(const Watch& other)
      : detector(other.detector ? other.detector->clone() : nullptr),
        rebalance(other.rebalance),
        replace(other.replace) {}
  Watch(Watch&&) = default;
  Watch& operator=(const Watch& other) { return *this = Watch(other); }
  Watch& operator=(Watch&&) = default;
  ~Watch() = default;
};

// One line about the slow workers, the slowest first; limited in length.
Reason report(const ClusterView& view, const std::vector<SlowWorker>& slow, const std::vector<SlowHost>& hosts) {
  Reason reason{"straggler", "", {{"slow", static_cast<double>(slow.size())}}};
  for (const SlowHost& host : hosts) {
    char text[200];
    std::snprintf(text, sizeof text, "all %zu workers of %s are slow, %.2f to %.2f times the others' time; ",
                  host.workers.size(), host_name(view, host.host).c_str(), host.least_slowdown, host.most_slowdown);
    reason.text += text;
  }
  const auto worst = std::max_element(slow.begin(), slow.end(),
                                      [](const SlowWorker& a, const SlowWorker& b) { return a.slowdown < b.slowdown; });
  char text[300];
  std::snprintf(text, sizeof text, "worker %llu (rank %u on %s) is slow: %s",
                static_cast<unsigned long long>(worst->worker), worst->rank, host_name(view, worst->host).c_str(),
                worst->because.c_str());
  reason.text += text;
  if (slow.size() > 1) reason.text += "; " + std::to_string(slow.size() - 1) + " more";
  reason.numbers.emplace_back("slowdown", worst->slowdown);
  return reason;
}

class Stragglers final : public PerJobPolicy<Watch> {
 public:
  explicit Stragglers(const Parameters& parameters)
      : detector_(text(parameters, "detector")),
        least_slowdown_(number(parameters, "least_slowdown")),
        robust_{least_slowdown_, whole(parameters, "least_steps"), number(parameters, "least_seconds")},
        rank_0_exempt_(flag(parameters, "rank_0_exempt")) {
    const std::string& action = text(parameters, "action");
    action_ = action == "replace"     ? Action::kReplace
              : action == "rebalance" ? Action::kRebalance
              : action == "report"    ? Action::kReport
                                      : Action::kNone;
    rebalance_.least_gain = number(parameters, "least_gain");
    rebalance_.recovered_below = least_slowdown_ / 2;
    replace_.per_hour = number(parameters, "replacements_per_hour");
    replace_.check_steps = whole(parameters, "check_steps");
  }

 protected:
  JobDecision decide_job(const ClusterView& view, const JobView& job, Watch& watch, Rng&) const override {
    JobDecision decision;
    if (action_ == Action::kNone) {
      decision.reason = {"off", "slow workers are not looked for", {}};
      return decision;
    }
    if (!watch.detector) watch.detector = make_detector();
    const std::vector<SlowWorker> slow = watch.detector->observe(job, view.now_s);
    const std::vector<double>& slowdowns = watch.detector->slowdowns();
    const std::vector<SlowHost> hosts = slow_hosts(job, slow, slowdowns, least_slowdown_);
    if (action_ == Action::kReplace) return watch.replace.decide(view, job, slow, hosts, slowdowns, replace_);
    if (action_ == Action::kRebalance) {
      if (auto change = watch.rebalance.decide(job, slow, slowdowns, rebalance_)) {
        decision.speeds = std::move(change->speeds);
        decision.reason = std::move(change->reason);
        return decision;
      }
    }
    decision.reason = slow.empty() ? Reason{"none_slow", "no worker is slow", {}} : report(view, slow, hosts);
    return decision;
  }

 private:
  std::unique_ptr<Detector> make_detector() const {
    if (detector_ == "ewma") return make_ewma_detector({.rank_0_exempt = rank_0_exempt_});
    if (detector_ == "nvidia") return make_nvidia_detector({});
    if (detector_ == "dlrover") return make_dlrover_detector(2);
    return make_robust_detector(robust_);
  }

  std::string detector_;
  double least_slowdown_;
  RobustOptions robust_;
  bool rank_0_exempt_;
  Action action_ = Action::kNone;
  RebalanceOptions rebalance_;
  ReplaceOptions replace_;
};

}  // namespace

PolicySpec straggler_policy() {
  const RobustOptions robust;
  return {"stragglers",
          "finds slow workers and reports them, rebalances shares, or replaces them",
          {{"action",
            std::string("report"),
            0,
            0,
            {"none", "report", "rebalance", "replace"},
            "action for a slow worker: none; a report; smaller shares, so that all arrive together; another "
            "worker in its place"},
           {"detector",
            std::string("robust"),
            0,
            0,
            {"robust", "ewma", "nvidia", "dlrover"},
            "how slow workers are found: medians over workers and over their own past (robust); Or et al. "
            "(ewma, below 0.8 of the median speed); NVIDIA's scores (nvidia, below 0.75); DLRover (dlrover, over twice "
            "the median time)"},
           {"least_slowdown", robust.least_slowdown, 0.01, 10, {}, "minimum slowdown: 0.08 is 8 % more time (robust)"},
           {"least_steps", 1.0 * robust.least_steps, 1, 1e6, {}, "minimum steps of slowness (robust)"},
           {"least_seconds", robust.least_s, 0, 86400, {}, "minimum seconds of slowness (robust)"},
           {"rank_0_exempt", true, 0, 0, {}, "rank 0, which often has more work, is never reported (ewma)"},
           {"least_gain", 0.02, 0.001, 1, {}, "minimum relative gain in step time to change shares (rebalance)"},
           {"replacements_per_hour", 4.0, 0, 1e6, {}, "maximum replacements per hour, of a worker or a host (replace)"},
           {"check_steps", 20.0, 1, 1e6, {}, "steps after which a replacement is evaluated (replace)"}},
          [](const Parameters& parameters) { return std::make_unique<Stragglers>(parameters); }};
}

}  // namespace elastictrain::heuristics
