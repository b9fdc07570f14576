#include "heuristics/interference/policy.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "heuristics/autoscale/format_text.h"
#include "heuristics/policy/per_job.h"

namespace elastictrain::heuristics {
namespace {

// Figures are means, so the remaining exchange time can be zero.
constexpr double kMinPart = 0.02;

double before_the_exchange_s(const WorkerView& member) {
  return member.data_wait_s + member.compute_s;
}

}  // namespace

Throughputs communication_throughputs(std::span<const WorkerView> members) {
  double slowest_s = 0;
  for (const auto& member : members) {
    if (member.steps != 0) slowest_s = std::max(slowest_s, before_the_exchange_s(member));
  }
  Throughputs found;
  for (const auto& member : members) {
    if (member.steps == 0 || !(member.communicate_s > 0)) continue;
    const double waiting_s = slowest_s - before_the_exchange_s(member);
    found[member.id] = 1 / std::max(member.communicate_s - waiting_s, kMinPart * member.communicate_s);
  }
  return found;
}

Vote vote_on_interference(const Throughputs& now, const Throughputs& reference, double below) {
  Vote vote;
  for (const auto& [worker, throughput] : now) {
    const auto first = reference.find(worker);
    if (first == reference.end()) continue;
    ++vote.voters;
    vote.votes += throughput < below * first->second ? 1 : 0;
  }
  return vote;
}

namespace {

// The conditions under which the references are comparable.
struct Setting {
  std::uint32_t workers = 0;
  std::uint64_t global_batch = 0;
  std::string topology;
  bool operator==(const Setting&) const = default;
};

struct InterferenceState {
  Setting setting;
  double first_step = 0;  // of the setting
  Throughputs reference;
  std::uint32_t disturbed_views = 0;  // consecutive views with a disturbed vote
  bool switched = false;
};

struct InterferenceSettings {
  double below = 0.8;
  double after_steps = 4;
  double views = 2;
  std::string topology = "star";
  std::uint32_t root = 1;
};

class InterferencePolicy final : public PerJobPolicy<InterferenceState> {
 public:
  explicit InterferencePolicy(const InterferenceSettings& settings) : settings_(settings) {}

 private:
  JobDecision decide_job(const ClusterView&, const JobView& job, InterferenceState& state, Rng&) const override {
    JobDecision decision;
    if (!state.switched) observe(job, state, decision.reason);
    if (!state.switched) return decision;
    const std::string target = shape_for(job.workers);
    if (decision.reason.code.empty())
      decision.reason = {"switched", "sums along " + settings_.topology + " for good", {}};
    if (!job.changing && job.workers > 1 && job.topology != target) decision.topology = target;
    return decision;
  }

  void observe(const JobView& job, InterferenceState& state, Reason& reason) const {
    const Setting setting{job.workers, job.global_batch, job.topology};
    if (setting != state.setting) state = {setting, job.steps_done, {}, 0, false};
    const bool warm_up =
        std::any_of(job.intervals.begin(), job.intervals.end(), [](const auto& one) { return one.warm_up; });
    const Throughputs now = communication_throughputs(job.members);
    if (job.changing || warm_up || now.empty()) {
      reason = {"measuring", "no measurements outside of changes yet", {}};
      return;
    }
    state.reference.insert(now.begin(), now.end());
    if (job.steps_done < state.first_step + settings_.after_steps) {
      reason = {
          "measuring", format_text("%.0f of %.0f steps", job.steps_done - state.first_step, settings_.after_steps), {}};
      return;
    }
    const Vote vote = vote_on_interference(now, state.reference, settings_.below);
    state.disturbed_views = vote.disturbed() ? state.disturbed_views + 1 : 0;
    state.switched = state.disturbed_views >= settings_.views;
    const char* const what = vote.disturbed() ? "disturbed" : "undisturbed";
    reason = {what,
              format_text("communication of %u of %u workers is below %.2g of its initial throughput", vote.votes,
                          vote.voters, settings_.below),
              {{"votes", vote.votes}, {"voters", vote.voters}}};
  }

  // A star with another root than rank 0 is expressed as a tree.
  std::string shape_for(std::uint32_t workers) const {
    if (settings_.topology != "star" || settings_.root == 0 || settings_.root >= workers) return settings_.topology;
    std::string parents;
    for (std::uint32_t rank = 0; rank < workers; ++rank)
      parents += (rank == 0 ? "" : ",") + std::to_string(settings_.root);
    return parents;
  }

  InterferenceSettings settings_;
};

}  // namespace

PolicySpec interference_policy() {
  SettingsTable<InterferenceSettings> table;
  table
      .number("below", &InterferenceSettings::below, {0, 1}, "",
              "share of its first throughput below which a worker votes that it is disturbed")
      .number("after_steps", &InterferenceSettings::after_steps, {1, 1e9}, "steps", "steps before the first vote")
      .number("views", &InterferenceSettings::views, {1, 1e6}, "", "consecutive votes that must agree; 1 as published")
      .text(
          "topology", &InterferenceSettings::topology,
          {"star", "ring", "tree", "binary-tree", "binary-tree-star", "multi-star", "multi-binary-tree-star", "clique"},
          "topology to change to")
      .whole("root", &InterferenceSettings::root, {0, static_cast<double>(std::numeric_limits<std::uint32_t>::max())},
             "", "rank at the centre of a star");
  PolicySpec spec = policy_spec<InterferencePolicy>(
      "interference", "KungFu's: changes the topology once most workers detect disturbed communication; keeps the size",
      table);
  spec.decides_size = false;
  return spec;
}

}  // namespace elastictrain::heuristics
