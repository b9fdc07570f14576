#include "supervisor/core/pure/swap_plan.h"

#include <algorithm>
#include <map>

namespace elastictrain::core {
namespace {

class Decider {
 public:
  explicit Decider(const SwapInput& input)
      : in_(input), stays_(input.members.size(), false), used_(input.candidates.size(), false) {}

  SwapDecision decide() {
    keep_members();
    fill();
    hold_back();
    make_room();
    bridge();
    list_members();
    share_out_spares();
    return std::move(out_);
  }

 private:
  std::uint32_t staying() const { return static_cast<std::uint32_t>(std::count(stays_.begin(), stays_.end(), true)); }
  std::uint32_t size() const { return staying() + static_cast<std::uint32_t>(out_.join.size() + out_.start.size()); }

  // The highest ranks leave first: rank 0 remains the oldest worker.
  void keep_members() {
    std::uint32_t kept = 0;
    for (std::size_t i = 0; i < in_.members.size() && kept < in_.want; ++i) {
      if (in_.members[i].displaced || in_.members[i].replaced) continue;
      stays_[i] = true;
      ++kept;
    }
  }

  void fill() {
    take_candidates(false);
    while (size() < in_.want && next_free_ < in_.free.size()) start(in_.free[next_free_++]);
    take_candidates(true);
    for (const CurrentMember& member : in_.members) {
      if (size() >= in_.want) break;
      if (member.replaced && !member.displaced && member.can_overlap && !is_taken(member.place)) start(member.place);
    }
  }

  void take_candidates(bool last_resort) {
    for (std::size_t i = 0; i < in_.candidates.size() && size() < in_.want; ++i) {
      if (in_.candidates[i].last_resort != last_resort) continue;
      used_[i] = true;
      out_.join.push_back(in_.candidates[i].worker);
      taken_.push_back(in_.candidates[i].place);
    }
  }

  void start(Place place) {
    out_.start.push_back(place);
    taken_.push_back(place);
  }

  bool is_taken(Place place) const { return std::find(taken_.begin(), taken_.end(), place) != taken_.end(); }

  void hold_back() {
    for (std::size_t i = 0; i < in_.members.size() && size() < in_.want; ++i) {
      const CurrentMember& member = in_.members[i];
      if (member.replaced && !member.displaced && !is_taken(member.place)) stays_[i] = true;
    }
    for (std::size_t i = 0; i < in_.members.size() && size() < in_.min; ++i) {
      if (stays_[i] || !in_.members[i].displaced) continue;
      stays_[i] = true;
      out_.held.push_back(in_.members[i].worker);
    }
  }

  // One at a time, when nobody else is on the way, and where enough stay.
  void make_room() {
    if (!out_.join.empty() || !out_.start.empty() || staying() <= std::max(in_.min, 1U)) return;
    for (std::size_t i = 0; i < in_.members.size(); ++i) {
      if (!stays_[i] || !in_.members[i].leaves_first) continue;
      stays_[i] = false;
      out_.makes_room = in_.members[i].worker;
      return;
    }
  }

  void bridge() {
    const bool anybody_new = !out_.join.empty() || !out_.start.empty();
    if (in_.members.empty() || staying() > 0 || !anybody_new) return;
    stays_[0] = true;
    out_.bridge = in_.members[0].worker;
  }

  void list_members() {
    for (std::size_t i = 0; i < in_.members.size(); ++i) {
      (stays_[i] ? out_.stay : out_.leave).push_back(in_.members[i].worker);
    }
  }

  void share_out_spares() {
    for (std::size_t i = 0; i < in_.candidates.size(); ++i) {
      if (used_[i]) continue;
      const Candidate& candidate = in_.candidates[i];
      const bool needed = candidate.may_wait && out_.spare.size() < in_.spares;
      (needed ? out_.spare : out_.dismiss).push_back(candidate.worker);
    }
    while (out_.spare.size() + out_.start_spare.size() < in_.spares && next_free_ < in_.free.size()) {
      out_.start_spare.push_back(in_.free[next_free_++]);
    }
  }

  const SwapInput& in_;
  std::vector<bool> stays_;
  std::vector<bool> used_;    // candidates that join
  std::vector<Place> taken_;  // slots of workers that join
  std::size_t next_free_ = 0;
  SwapDecision out_;
};

}  // namespace

SwapDecision decide_swap(const SwapInput& input) {
  return Decider(input).decide();
}

std::vector<WorkerId> choose_donors(const std::vector<protocol::Member>& members, std::size_t max) {
  std::vector<const protocol::Member*> survivors;
  for (const protocol::Member& member : members) {
    if (!member.joiner) survivors.push_back(&member);
  }
  std::stable_sort(survivors.begin(), survivors.end(),
                   [](const auto* a, const auto* b) { return a->local_rank < b->local_rank; });
  std::vector<WorkerId> donors;
  for (const protocol::Member* member : survivors) {
    if (donors.size() < max) donors.push_back(member->worker);
  }
  return donors;
}

std::uint64_t base_batch(const RunSettings& settings) {
  heuristics::BatchRule rule = settings.batch;
  if (settings.base_per_worker != 0) rule.per_worker = settings.base_per_worker;
  return heuristics::plan_batch(rule, settings.start_workers).global;
}

double learning_rate_factor(const RunSettings& settings, std::uint64_t global_batch) {
  const LearningRateSettings& rate = settings.learning_rate;
  const std::uint64_t base = base_batch(settings);
  // Every worker makes its own update, from its own batch, whatever the size of the run.
  const bool one_update = settings.synchronization == protocol::Synchronization::kGradients;
  return rate.factor.value_or(
      heuristics::learning_rate_factor(rate.rule, one_update ? global_batch : base, base, rate.noise_scale));
}

protocol::GenerationPlan make_plan(const RunSettings& settings, Generation generation, Generation previous,
                                   const std::vector<PlanMember>& members, const std::vector<double>& speeds) {
  protocol::GenerationPlan plan;
  plan.generation = generation;
  plan.previous = previous;
  const auto size = static_cast<std::uint32_t>(members.size());
  const heuristics::BatchPlan batch = speeds.size() == members.size() && size != 0
                                          ? heuristics::plan_batch(settings.batch, speeds)
                                          : heuristics::plan_batch(settings.batch, size);
  std::map<std::string, std::uint32_t> on_host;
  bool somebody_joins = false;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    const PlanMember& from = members[rank];
    const bool joiner = previous != 0 && !from.survivor;
    somebody_joins = somebody_joins || joiner;
    plan.members.push_back(
        {from.worker, rank, on_host[from.host]++, from.host, from.endpoint, batch.shares[rank], joiner});
  }
  if (somebody_joins) plan.donors = choose_donors(plan.members, kMaxDonors);
  plan.learning_rate_factor = learning_rate_factor(settings, batch.global);
  plan.learning_rate_ramp_steps = settings.learning_rate.ramp_steps;
  plan.topology = settings.topology;
  if (settings.parents.size() == members.size()) plan.parents = settings.parents;
  plan.synchronization = settings.synchronization;
  plan.averaging_weight = settings.averaging_weight;
  plan.build_deadline_ms = static_cast<std::uint64_t>(settings.prepare_timeout.count());
  return plan;
}

}  // namespace elastictrain::core
