#include "heuristics/straggler/policy.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "heuristics/policy/per_job.h"
#include "heuristics/straggler/detector.h"
#include "heuristics/straggler/findings.h"
#include "heuristics/straggler/published.h"
#include "heuristics/straggler/remedies.h"
#include "heuristics/straggler/robust.h"

namespace elastictrain::heuristics {
namespace {

enum class Action : std::uint8_t { kNone, kReport, kRebalance, kReplace };

struct Watch {
  std::unique_ptr<Detector> detector;  // none before the first view
  DataWait data;
  PairDifference pair;
  Rebalance rebalance;
  Replace replace;

  Watch() = default;
  Watch(const Watch& other)
      : detector(other.detector ? other.detector->clone() : nullptr),
        data(other.data),
        pair(other.pair),
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
                  host.workers.size(), host_name(view, host.host).c_str(), host.min_slowdown, host.max_slowdown);
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

struct StragglerSettings {
  std::string action = "report";
  std::string detector = "robust";
  RobustOptions robust;
  EwmaOptions ewma;
  DataWaitOptions data;
  PairOptions pair;
  RebalanceOptions rebalance;
  ReplaceOptions replace;
};

Action action_of(const std::string& name) {
  if (name == "replace") return Action::kReplace;
  if (name == "rebalance") return Action::kRebalance;
  return name == "report" ? Action::kReport : Action::kNone;
}

class Stragglers final : public PerJobPolicy<Watch> {
 public:
  explicit Stragglers(const StragglerSettings& settings) : settings_(settings), action_(action_of(settings.action)) {
    settings_.rebalance.recovered_below = settings.robust.min_slowdown / 2;
    settings_.data.min_share = settings.robust.min_slowdown;
    settings_.data.min_s = settings.robust.min_s;
    settings_.pair = {settings.robust.min_slowdown, settings.robust.min_steps, settings.robust.min_s};
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
    const std::vector<SlowHost> hosts = slow_hosts(job, slow, slowdowns, settings_.robust.min_slowdown);
    const auto data_bound = watch.data.observe(view, job, settings_.data);
    const auto differs = watch.pair.observe(view, job, settings_.pair);
    if (action_ == Action::kReplace) {
      decision = watch.replace.decide(view, job, slow, hosts, slowdowns, settings_.replace);
      if (!decision.changes()) rebalance_meanwhile(view, job, slow, slowdowns, watch, decision);
    } else if (action_ == Action::kRebalance) {
      if (auto change = watch.rebalance.decide(job, slow, slowdowns, settings_.rebalance, view.now_s)) {
        decision.speeds = std::move(change->speeds);
        decision.reason = std::move(change->reason);
        return decision;
      }
    }
    if (decision.reason.code.empty()) {
      decision.reason = slow.empty() ? Reason{"none_slow", "no worker is slow", {}} : report(view, slow, hosts);
    }
    // It is the cause where one of two waits for its data.
    if (data_bound && decision.reason.code == "none_slow") decision.reason = *data_bound;
    if (differs && decision.reason.code == "none_slow") decision.reason = *differs;
    return decision;
  }

 private:
  // A slow worker that cannot be replaced gets a smaller share, and an equal one once it is as fast as the others.
  void rebalance_meanwhile(const ClusterView& view, const JobView& job, const std::vector<SlowWorker>& slow,
                           const std::vector<double>& slowdowns, Watch& watch, JobDecision& decision) const {
    const bool stays = decision.reason.code == "no_place";
    auto change = watch.rebalance.decide(job, stays ? slow : std::vector<SlowWorker>{}, slowdowns, settings_.rebalance,
                                         view.now_s);
    if (!change) return;
    decision.speeds = std::move(change->speeds);
    decision.reason.text = (stays ? decision.reason.text + "; " : "") + change->reason.text;
    decision.reason.code = change->reason.code;
  }

  std::unique_ptr<Detector> make_detector() const {
    if (settings_.detector == "ewma") return make_ewma_detector(settings_.ewma);
    if (settings_.detector == "nvidia") return make_nvidia_detector({});
    if (settings_.detector == "dlrover") return make_dlrover_detector(2);
    return make_robust_detector(settings_.robust);
  }

  StragglerSettings settings_;
  Action action_;
};

}  // namespace

PolicySpec straggler_policy() {
  SettingsTable<StragglerSettings> table;
  table
      .text("action", &StragglerSettings::action, {"none", "report", "rebalance", "replace"},
            "what happens to a slow worker: none; report; rebalance: a smaller share, so that all workers arrive "
            "together; replace: another worker takes its place")
      .text(
          "detector", &StragglerSettings::detector, {"robust", "ewma", "nvidia", "dlrover"},
          "robust: medians over the workers and over a worker's own past, against noise; ewma: Or et al., below 0.8 of "
          "the median speed; nvidia: NVIDIA's scores, below 0.75; dlrover: over twice the median time")
      .number(
          "least_slowdown", [](StragglerSettings& all) -> double& { return all.robust.min_slowdown; }, {0.01, 10}, "",
          "minimum slowdown that counts as slow: 0.08 is 8 % more time (robust)")
      .whole(
          "least_steps", [](StragglerSettings& all) -> std::uint32_t& { return all.robust.min_steps; }, {1, 1e6},
          "steps", "minimum number of steps for which it must last (robust)")
      .number(
          "least_seconds", [](StragglerSettings& all) -> double& { return all.robust.min_s; }, {0, 86400}, "seconds",
          "minimum time for which it must last (robust)")
      .flag(
          "rank_0_exempt", [](StragglerSettings& all) -> bool& { return all.ewma.rank_0_exempt; },
          "never report rank 0, which often has more work (ewma)")
      .number(
          "least_gain", [](StragglerSettings& all) -> double& { return all.rebalance.min_gain; }, {0.001, 1}, "",
          "minimum share by which steps must become shorter for a change of shares (rebalance)")
      .number(
          "replacements_per_hour", [](StragglerSettings& all) -> double& { return all.replace.per_hour; }, {0, 1e6}, "",
          "maximum replacements in an hour, of a worker or of a host (replace)")
      .whole(
          "check_steps", [](StragglerSettings& all) -> std::uint32_t& { return all.replace.check_steps; }, {1, 1e6},
          "steps", "steps after which a replacement is evaluated (replace)");
  return policy_spec<Stragglers>("stragglers",
                                 "finds slow workers and reports them, reduces their shares, or replaces them", table);
}

}  // namespace elastictrain::heuristics
