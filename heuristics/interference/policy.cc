#include "heuristics/interference/policy.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "heuristics/autoscale/words.h"
#include "heuristics/interference/vote.h"
#include "heuristics/policy/per_job.h"

namespace elastictrain::heuristics {
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

class InterferencePolicy final : public PerJobPolicy<InterferenceState> {
 public:
  explicit InterferencePolicy(const Parameters& parameters)
      : below_(number(parameters, "below")),
        after_steps_(number(parameters, "after_steps")),
        views_(number(parameters, "views")),
        topology_(text(parameters, "topology")),
        root_(static_cast<std::uint32_t>(number(parameters, "root"))) {}

 private:
  JobDecision decide_job(const ClusterView&, const JobView& job, InterferenceState& state, Rng&) const override {
    JobDecision decision;
    if (!state.switched) observe(job, state, decision.reason);
    if (!state.switched) return decision;
    const std::string wanted = shape_for(job.workers);
    if (decision.reason.code.empty())
      decision.reason = {"switched", "uses the topology " + topology_ + " for the rest of the job", {}};
    if (!job.changing && job.workers > 1 && job.topology != wanted) decision.topology = wanted;
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
    if (job.steps_done < state.first_step + after_steps_) {
      reason = {"measuring", words("%.0f of %.0f steps", job.steps_done - state.first_step, after_steps_), {}};
      return;
    }
    const Vote vote = vote_on_interference(now, state.reference, below_);
    state.disturbed_views = vote.disturbed() ? state.disturbed_views + 1 : 0;
    state.switched = state.disturbed_views >= views_;
    const char* const what = vote.disturbed() ? "disturbed" : "undisturbed";
    reason = {what,
              words("communication of %u of %u workers is below %.2g of its initial throughput", vote.votes,
                    vote.voters, below_),
              {{"votes", vote.votes}, {"voters", vote.voters}}};
  }

  // A star with another root than rank 0 is expressed as a tree.
  std::string shape_for(std::uint32_t workers) const {
    if (topology_ != "star" || root_ == 0 || root_ >= workers) return topology_;
    std::string fathers;
    for (std::uint32_t rank = 0; rank < workers; ++rank) fathers += (rank == 0 ? "" : ",") + std::to_string(root_);
    return fathers;
  }

  double below_;
  double after_steps_;
  double views_;
  std::string topology_;
  std::uint32_t root_;
};

}  // namespace

PolicySpec interference_policy() {
  PolicySpec spec;
  spec.name = "interference";
  spec.help = "KungFu's: changes the topology once most workers detect disturbed communication; keeps the size";
  spec.parameters = {
      {"below", 0.8, 0, 1, {}, "fraction of its initial throughput below which a worker votes \"disturbed\""},
      {"after_steps", 4.0, 1, 1e9, {}, "steps before the first vote"},
      {"views", 2.0, 1, 1e6, {}, "consecutive views that must agree; 1 as published"},
      {"topology",
       std::string("star"),
       0,
       0,
       {"star", "ring", "tree", "binary-tree", "binary-tree-star", "multi-star", "multi-binary-tree-star", "clique"},
       "topology to change to"},
      {"root", 1.0, 0, std::numeric_limits<std::uint32_t>::max(), {}, "rank at the centre of a star"}};
  spec.make = [](const Parameters& parameters) { return std::make_unique<InterferencePolicy>(parameters); };
  spec.decides_size = false;
  return spec;
}

}  // namespace elastictrain::heuristics
