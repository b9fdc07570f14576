// Views and traces of a few jobs for tests of sharing policies.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "heuristics/sharing/policy.h"
#include "heuristics/simulate/cluster/simulation.h"

namespace elastictrain::heuristics::sharing {

inline std::shared_ptr<const Curve> curve_of(const std::vector<double>& rates) {
  std::vector<Curve::Point> points;
  for (const double rate : rates) points.push_back({static_cast<std::uint32_t>(points.size()) + 1, rate});
  return std::make_shared<const Curve>(points);
}

inline std::shared_ptr<const Curve> linear_curve(std::uint32_t most) {
  std::vector<double> rates;
  for (std::uint32_t slots = 1; slots <= most; ++slots) rates.push_back(slots);
  return curve_of(rates);
}

inline cluster::TraceJob job_of(double work, std::shared_ptr<const Curve> curve, std::uint32_t requested = 1,
                                double arrival_s = 0) {
  cluster::TraceJob job;
  job.work = work;
  job.curve = std::move(curve);
  job.requested = requested;
  job.arrival_s = arrival_s;
  return job;
}

inline cluster::Trace trace_of(std::vector<cluster::TraceJob> jobs) {
  cluster::Trace trace;
  trace.name = "test";
  trace.jobs = std::move(jobs);
  for (std::size_t i = 0; i < trace.jobs.size(); ++i) trace.jobs[i].id = std::to_string(i);
  return trace;
}

inline View view_of(const cluster::Trace& trace, std::uint32_t slots) {
  View view;
  view.slots = slots;
  for (const cluster::TraceJob& job : trace.jobs) {
    JobView one;
    one.id = view.jobs.size();
    one.requested = job.requested;
    one.curve = job.curve.get();
    one.remaining = job.work;
    view.jobs.push_back(one);
  }
  return view;
}

inline std::vector<double> slots_of(const Decision& decision) {
  std::vector<double> slots;
  for (const Grant& grant : decision.grants) slots.push_back(grant.slots);
  return slots;
}

inline std::vector<double> slots_by(const SharingPolicy& policy, const View& view) {
  Decision decision;
  decision.grants.resize(view.jobs.size());
  Rng rng(1);
  policy.decide(view, *policy.initial_state(), rng, decision);
  return slots_of(decision);
}

inline cluster::Outcome outcome_of(const cluster::Trace& trace, const std::string& policy, cluster::Options options) {
  return cluster::simulate(trace, *find_sharing_policy(policy), options);
}

inline double mean_jct_s(const cluster::Trace& trace, const std::string& policy, std::uint32_t slots) {
  cluster::Options options;
  options.slots = slots;
  return cluster::figures_of(trace, outcome_of(trace, policy, options), slots).mean_jct_s;
}

}  // namespace elastictrain::heuristics::sharing
