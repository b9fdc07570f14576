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
  Actions actions;  // of the present step

  // Hosts and who may use their slots.
  std::vector<HostLine> hosts;         // by number; slots 0: gone. A host that comes back keeps its number
  std::vector<HostLine> helpers;       // those that helper jobs have brought
  std::uint32_t asked_slots = 0;       // that a request for helper jobs in progress asks for; 0: there is none
  double asked_s = 0;                  // since when
  heuristics::leases::LeaseBook book;  // leases, and what is planned for whom

  // Jobs, also those of the last that have ended (Settings::kept_ended).
  std::map<JobId, Job> jobs;
  JobId last_job = 0;                       // the highest id ever given
  std::map<Connection, JobId> connections;  // of runs that are there
  std::vector<double> lengths;              // samples of jobs that have ended, ascending
  std::optional<double> jobs_due_s;         // when a job has to be looked at; nothing: to be found again

  // After a restart nothing is decided before the runs are back, or until then.
  bool resuming = false;
  double resume_until_s = 0;

  // When and why it is decided.
  double decide_s = kNever;     // something has happened
  double again_s = kNever;      // the policy or a job wants another look
  std::string trigger;          // of the next decision
  std::string because;          // of the present one
  std::uint64_t decisions = 0;  // so far
  bool left_idle = false;       // the last one gave less than there was, because something has to happen before

  // The policy, and what it remembers.
  const heuristics::sharing::PolicySpec* spec;  // its own, or that of kStandIn
  std::unique_ptr<heuristics::sharing::SharingPolicy> policy;
  std::map<std::int32_t, std::unique_ptr<heuristics::sharing::State>> states;  // by priority
  heuristics::sharing::Rng rng;
  std::uint64_t last_seen_as = 0;  // the highest number under which a policy has seen a job
  std::vector<Gone> gone;          // since the last decision began
  std::vector<Gone> gone_before;   // that the present one is told of

  // Of a policy from outside.
  std::uint64_t questions = 0;                  // asked so far
  std::shared_ptr<const PolicyQuestion> asked;  // the one that is not answered yet
  std::map<std::int32_t, Said> said;            // in the present decision, by priority
  bool policy_gone = false;                     // it has ended for good, and the stand-in decides
  std::string policy_problem;                   // why the stand-in decides; empty: it does not
};

inline void write_record(ClusterState& state, Record record) {
  state.actions.emplace_back(Write{std::move(record)});
}

}  // namespace elastictrain::jobs
