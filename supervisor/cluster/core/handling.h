// Purpose: the handlers of a cluster's events, and what its files use of each other. Each changes the state that it is
// given; `now_s` is the time of the step.
//
// Ownership and thread: those of the cluster.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/cluster/core/state.h"

namespace elastictrain::jobs {

// A policy from outside. In asking.cc.
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

// Hosts of helper jobs. In growth.cc.
void handle(ClusterState& state, const HelpersChanged& event, double now_s);
std::uint32_t reach_with_helpers(const ClusterState& state, const JobSpec& spec);
// The cluster's, or as many as there may be with helper jobs.
std::uint32_t slots_with_helpers(const ClusterState& state);
SlotDemand demand_of(const ClusterState& state);

// Runs that come, are lost, come back and end. In lives.cc.
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

// Submissions and orders. In orders.cc.
void handle(ClusterState& state, const Submit& event, double now_s);
void handle(ClusterState& state, const Command& event, double now_s);
std::string refusal(const ClusterState& state, const Owner& owner, const Limits& limits, const JobSpec& spec,
                    Outcome& outcome);
std::string misfit(const ClusterState& state, const Owner& owner, const Limits& limits, const JobSpec& spec,
                   Outcome& outcome);
Job& admit(ClusterState& state, const Owner& owner, const Limits& limits, const JobSpec& spec, double unix_s,
           double now_s);

// What was measured of a job. In curves.cc.
bool take_rates(const ClusterState& state, Job& job, const Report& report, record::Learned& learned);

// Deadlines. In deadlines.cc.
bool falls_behind(const ClusterState& state, const Job& job, double now_s);
std::string deadline_text(const ClusterState& state, const Job& job, double now_s);
std::string deadline_answer(const ClusterState& state, const Job& job, double now_s);

// Decisions. In deciding.cc.
void decide(ClusterState& state, double now_s);
void go_on_deciding(ClusterState& state, double now_s);
std::uint32_t most_of(const ClusterState& state, const Job& job, std::uint32_t slots);

// Hosts that one job has lost. In losing.cc.
bool take_lost(ClusterState& state, Job& job, const std::vector<std::uint32_t>& reported, double now_s);
void look_at_losses(ClusterState& state, Job& job, double now_s);

// Workers that move between hosts. In migrating.cc.
std::string move_text(const ClusterState& state, const Job& job);
void end_move(ClusterState& state, Job& job, record::MoveOutcome outcome, const std::string& why, double now_s);
void take_moved(ClusterState& state, Job& job, double now_s);

// Which slots. In placing.cc.
std::vector<std::uint32_t> room_for(const ClusterState& state, const Job& job, const std::vector<std::uint32_t>& free);
std::uint32_t reach_of(const ClusterState& state, const JobSpec& spec);

// Jobs that stand still in memory. In resting.cc.
bool is_away(const ClusterState& state, const Job& job);
bool can_stand(const ClusterState& state, const Job& job);
bool is_to_stand(const ClusterState& state, const Job& job, std::uint32_t share);

// The journal, and the rules that hold after every step. In recalling.cc.
void recall_record(ClusterState& state, const Record& record, double now_s);
bool needs(const ClusterState& state, const Record& record);
std::vector<std::string> broken_rules(const ClusterState& state);

}  // namespace elastictrain::jobs
