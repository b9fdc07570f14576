// Purpose: base of policies that decide for each job separately. Keeps a state per job, found by the job's name; the
// state of a job that is no longer in the view is dropped. Pure.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "heuristics/policy/policy.h"

namespace elastictrain::heuristics {

// `JobState` is copyable. A new job starts with a default-constructed one.
template <typename JobState>
class PerJobPolicy : public Policy {
 public:
  std::unique_ptr<PolicyState> initial_state() const final { return std::make_unique<States>(); }

  Decision decide(const ClusterView& view, PolicyState& state, Rng& rng) const final {
    auto& jobs = static_cast<States&>(state).jobs;
    std::map<std::string, JobState> kept;
    Decision decision;
    for (const auto& job : view.jobs) {
      const auto known = jobs.find(job.name);
      JobState& own =
          kept.try_emplace(job.name, known == jobs.end() ? JobState{} : std::move(known->second)).first->second;
      decision.jobs.push_back(decide_job(view, job, own, rng));
    }
    jobs = std::move(kept);
    return decision;
  }

 protected:
  virtual JobDecision decide_job(const ClusterView& view, const JobView& job, JobState& state, Rng& rng) const = 0;

 private:
  struct States final : PolicyState {
    std::map<std::string, JobState> jobs;
    std::unique_ptr<PolicyState> clone() const override { return std::make_unique<States>(*this); }
  };
};

}  // namespace elastictrain::heuristics
