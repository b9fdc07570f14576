// Purpose: all state of a cluster, in one place, and the handlers that change it, by file.
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

// All state of a cluster, in one place. The files beside it change it: job_lifecycle (runs that come, are lost and
// end), requests, policy_answers, deciding (with placing, suspending, migrating and deadlines), hosts. Cluster hands
// events to them.
//
// Ownership: one per cluster, held by Cluster. Thread: one. Plain data, but for the lease book and the policy.

namespace elastictrain::cluster_core {

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

// The handlers of a cluster's events, and what its files use of each other. Each changes the state that it is
// given; `now_s` is the time of the step.
//
// Ownership and thread: those of the cluster.

// A policy from outside. In policy_answers.cc.
void handle(ClusterState& state, const PolicyAnswered& event, double now_s);

// Leases, places in the queue, times. In cluster.cc.
void handle(ClusterState& state, const Tick&, double now_s);
void handle(ClusterState& state, const HostsChanged& event, double now_s);
std::uint32_t cluster_slots(const ClusterState& state);
void decide_soon(ClusterState& state, double now_s, const std::string& trigger);
void account_for(ClusterState& state, Job& job, double now_s);
void settle_leases(ClusterState& state, double now_s);
void send_lease(ClusterState& state, const Job& job);
void send_places(ClusterState& state);
void start_job(ClusterState& state, Job& job, double now_s);
std::optional<double> length_of(const ClusterState& state, const Job& job);
std::optional<double> left_s(const ClusterState& state, const Job& job);
void forget_old(ClusterState& state);

// Hosts of helper jobs. In hosts.cc.
void handle(ClusterState& state, const HelpersChanged& event, double now_s);
std::uint32_t reach_with_helpers(const ClusterState& state, const JobSpec& spec);
// The cluster's, or as many as there may be with helper jobs.
std::uint32_t slots_with_helpers(const ClusterState& state);
SlotDemand demand_of(const ClusterState& state);

// Runs that come, are lost, come back and end. In job_lifecycle.cc.
void handle(ClusterState& state, const Join& event, double now_s);
void handle(ClusterState& state, const Report& event, double now_s);
void handle(ClusterState& state, const RunEnded& event, double now_s);
void handle(ClusterState& state, const Disconnected& event, double now_s);
void handle(ClusterState& state, const ProcessEnded& event, double now_s);
void handle(ClusterState& state, const Probed& event, double now_s);
bool at_work(const ClusterState& state, const Job& job);
bool pinned(const Job& job);
std::string refusal(const ClusterState& state, const Join& event, const Job* job);
void lose_run(ClusterState& state, Job& job, double now_s);
void job_left(ClusterState& state, Job& job, int status, const std::string& why, double now_s);
void end_job(ClusterState& state, Job& job, const std::string& why, double now_s);
void look_after(ClusterState& state, Job& job, double now_s);

// Submissions and orders. In requests.cc.
void handle(ClusterState& state, const Submit& event, double now_s);
void handle(ClusterState& state, const Command& event, double now_s);
std::string refusal(const ClusterState& state, const Owner& owner, const Limits& limits, const JobSpec& spec,
                    Outcome& outcome);
std::string misfit(const ClusterState& state, const Owner& owner, const Limits& limits, const JobSpec& spec,
                   Outcome& outcome);
Job& admit(ClusterState& state, const Owner& owner, const Limits& limits, const JobSpec& spec, double unix_s,
           double now_s);

// What was measured of a job. In job_curves.cc.
bool take_rates(const ClusterState& state, Job& job, const Report& report, record::Learned& learned);

// Deadlines. In deadlines.cc.
bool falls_behind(const ClusterState& state, const Job& job, double now_s);
std::string deadline_text(const ClusterState& state, const Job& job, double now_s);
std::string deadline_answer(const ClusterState& state, const Job& job, double now_s);

// Decisions. In deciding.cc.
void decide(ClusterState& state, double now_s);
void go_on_deciding(ClusterState& state, double now_s);
std::uint32_t most_of(const ClusterState& state, const Job& job, std::uint32_t slots);

// Hosts that one job has lost. In hosts.cc.
bool take_lost(ClusterState& state, Job& job, const std::vector<std::uint32_t>& reported, double now_s);
void look_at_losses(ClusterState& state, Job& job, double now_s);

// Workers that move between hosts. In migrating.cc.
std::string move_text(const ClusterState& state, const Job& job);
void end_move(ClusterState& state, Job& job, record::MoveOutcome outcome, const std::string& why, double now_s);
void take_moved(ClusterState& state, Job& job, double now_s);

// Which slots. In placing.cc.
std::vector<std::uint32_t> room_for(const ClusterState& state, const Job& job, const std::vector<std::uint32_t>& free);
std::uint32_t reach_of(const ClusterState& state, const JobSpec& spec);

// Jobs that stand still in memory. In suspending.cc.
bool is_away(const ClusterState& state, const Job& job);
bool can_stand(const ClusterState& state, const Job& job);
bool is_to_stand(const ClusterState& state, const Job& job, std::uint32_t share);

// The journal, and the rules that hold after every step. In restoring.cc.
void recall_record(ClusterState& state, const Record& record, double now_s);
bool needs(const ClusterState& state, const Record& record);
std::vector<std::string> broken_rules(const ClusterState& state);

}  // namespace elastictrain::cluster_core
