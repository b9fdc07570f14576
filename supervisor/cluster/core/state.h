// Purpose: all state of a cluster, in one place. The files beside it change it: lives (runs that come, are lost and
// end), orders, asking, deciding (with placing, packing, resting, migrating and deadlines), growth, losing. Cluster
// hands events to them.
//
// Ownership: one per cluster, held by Cluster. Thread: one. Plain data, but for the lease book and the policy.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heuristics/leases/lease_book.h"
#include "heuristics/sharing/policy.h"
#include "supervisor/cluster/core/cluster.h"

namespace elastictrain::jobs {

using Holder = heuristics::leases::Holder;

// What a policy from outside has answered.
struct Said {
  std::shared_ptr<const PolicyQuestion> asked;
  heuristics::sharing::Decision decision;
};

// A job that has ended, for policies that remember what users have had.
struct Gone {
  std::uint64_t seen_as;
  std::int32_t priority;
  std::uint32_t requested;
  double slot_s, work;
};

struct ClusterState {
  explicit ClusterState(Settings of_cluster);

  Settings settings;
  const heuristics::sharing::PolicySpec* spec;
  std::unique_ptr<heuristics::sharing::SharingPolicy> policy;
  std::map<std::int32_t, std::unique_ptr<heuristics::sharing::State>> states;  // by priority
  heuristics::sharing::Rng rng;
  heuristics::leases::LeaseBook book;
  std::vector<HostLine> hosts;
  std::vector<HostLine> helpers;
  std::uint32_t asked_slots = 0;
  double asked_s = 0;
  std::map<JobId, Job> jobs;
  std::map<Connection, JobId> connections;
  std::uint64_t last_seen_as = 0;
  std::vector<Gone> gone;         // since the last decision began
  std::vector<Gone> gone_before;  // that the present one is told of
  std::vector<double> lengths;    // samples of jobs that have ended, ascending
  JobId last_job = 0;
  bool resuming = false;
  double resume_until_s = 0;
  double decide_s = kNever;
  double again_s = kNever;
  bool left_idle = false;  // the last decision gave less than there was, because something has to happen before
  std::optional<double> jobs_due_s;  // the least due_s(); nothing: to be found again
  std::string trigger;
  std::string because;  // the trigger of the present decision
  std::uint64_t decisions = 0;
  // Of the policy from outside.
  std::uint64_t questions = 0;
  std::shared_ptr<const PolicyQuestion> asked;  // the question that is not answered yet
  std::map<std::int32_t, Said> said;            // in the present decision, by priority
  bool policy_gone = false;
  std::string policy_problem;
  Actions actions;
};

inline void write_record(ClusterState& state, Record record) {
  state.actions.emplace_back(Write{std::move(record)});
}

}  // namespace elastictrain::jobs
