// Purpose: a policy and a job model in a closed loop: the policy sees what a live run's policy would see, and the model
// applies its decisions with their delays.
//
// Pure and repeatable: the same policy, model and seed give the same trajectory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heuristics/policy/policy.h"
#include "heuristics/simulate/job_model.h"

namespace elastictrain::heuristics {

struct LoopSettings {
  std::uint32_t start_workers = 1;
  double view_every_s = 5;
  std::uint64_t seed = 1;
  double longest_s = 1e9;  // stops a job that would never end
};

// A period at one size and one number of paid workers.
struct Segment {
  double begin_s = 0;
  double end_s = 0;
  std::uint32_t workers = 0;  // workers that compute
  std::uint32_t paid = 0;     // with those that are starting
  double samples = 0;
  double seconds() const { return end_s - begin_s; }
};

struct SizeChange {
  double asked_s = 0;
  double at_s = 0;
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  Reason reason;
};

struct Trajectory {
  std::vector<Segment> segments;
  std::vector<SizeChange> changes;  // those that were applied
  Reason last_reason;
  double job_s = 0;
  double worker_seconds = 0;
  double cost = 0;
  double idle_s = 0;
  double said_settled_s = -1;  // at which the policy first said that it is; negative: never
  std::uint32_t size_at(double now_s) const;
};

Trajectory run_closed_loop(const Policy& policy, const JobModel& model, const LoopSettings& settings);

}  // namespace elastictrain::heuristics
