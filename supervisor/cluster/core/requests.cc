// Submissions and users' orders: what is allowed, and what becomes of it.
#include <algorithm>
#include <utility>

#include "supervisor/cluster/core/state.h"
#include "supervisor/protocol/check.h"

namespace elastictrain::cluster_core {
namespace {

std::string plural(std::uint64_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

bool may_act_on(const Owner& who, const Job& job) {
  return who.of_cluster || who.uid == job.owner.uid;
}

}  // namespace

// Empty: it can have its least on the hosts that it asks for.
std::string misfit(const ClusterState& state, const Owner& owner, const Limits& limits, const JobSpec& spec,
                   Outcome& outcome) {
  outcome = Outcome::kInvalid;
  if (spec.min < 1 || spec.max < spec.min || spec.start < spec.min || spec.start > spec.max) {
    return "the sizes of " + spec.name + " must be 1 <= min <= start <= max";
  }
  for (const std::string& asked : spec.hosts) {
    const auto found =
        std::find_if(state.hosts.begin(), state.hosts.end(), [&](const HostLine& one) { return one.name == asked; });
    if (found == state.hosts.end())
      return spec.name + " asks for the host " + asked + ", which is not a host of this cluster";
  }
  if (spec.hosts.size() > state.hosts.size()) return spec.name + " asks for a host more than once";
  outcome = Outcome::kNotPermitted;
  if (spec.min > limits.slots) {
    return spec.name + " needs " + plural(spec.min, "slot") + " and user " + owner.name + " may have " +
           plural(limits.slots, "slot") + " (limits.slots)";
  }
  outcome = Outcome::kUnavailable;
  if (spec.min > slots_with_helpers(state)) {
    return spec.name + " needs " + plural(spec.min, "slot") + " and the cluster has " +
           plural(slots_with_helpers(state), "slot") +
           (state.settings.most_slots > cluster_slots(state) ? " at most" : "");
  }
  if (spec.min > reach_with_helpers(state, spec)) {
    return spec.name + " needs " + plural(spec.min, "slot") + "; the hosts that it asks for have " +
           plural(reach_with_helpers(state, spec), "slot");
  }
  return "";
}

// Empty: it may be a job of this cluster.
std::string refusal(const ClusterState& state, const Owner& owner, const Limits& limits, const JobSpec& spec,
                    Outcome& outcome) {
  outcome = Outcome::kInvalid;
  std::uint64_t own_jobs = 0, all_jobs = 0;
  for (const auto& [id, job] : state.jobs) {
    if (!job.live()) continue;
    ++all_jobs;
    if (job.owner.uid != owner.uid) continue;
    ++own_jobs;
    if (job.spec.name == spec.name) {
      return "the name " + spec.name + " is in use by job " + id_text(id) + "; choose another: --name";
    }
  }
  outcome = Outcome::kNotPermitted;
  const std::string user = "user " + owner.name;
  if (!limits.submit) return user + " may not submit jobs to this cluster (limits)";
  if (own_jobs >= limits.queued) {
    outcome = Outcome::kFull;
    return user + " has " + plural(own_jobs, "job") + " and may have " + plural(limits.queued, "job") +
           " (limits.queued)";
  }
  if (spec.priority > limits.priority && !owner.of_cluster) {
    return user + " may give at most priority " + std::to_string(limits.priority) + " (limits.priority), not " +
           std::to_string(spec.priority);
  }
  if (std::string problem = misfit(state, owner, limits, spec, outcome); !problem.empty()) return problem;
  outcome = Outcome::kFull;
  if (all_jobs >= state.settings.max_jobs) {
    return "the cluster has " + plural(all_jobs, "job") + " already, the most that it takes";
  }
  return "";
}

Job& admit(ClusterState& state, const Owner& owner, const Limits& limits, const JobSpec& spec, double unix_s,
           double now_s) {
  const JobId id = ++state.last_job;
  ET_CHECK(!state.jobs.contains(id), "the id of a job is never used again");
  Job& job = state.jobs[id];
  job.id = id;
  job.spec = spec;
  job.owner = owner;
  job.limits = limits;
  job.submitted_s = job.settled_s = now_s;
  job.submitted_unix_s = unix_s;
  job.why = "not considered yet";
  write_record(state, record::Submitted{id, owner, spec, unix_s});
  decide_soon(state, now_s, id_text(id) + " arrives");
  return job;
}

void handle(ClusterState& state, const Submit& event, double now_s) {
  Outcome outcome;
  const std::string problem = refusal(state, event.owner, event.limits, event.spec, outcome);
  if (!problem.empty()) {
    state.actions.emplace_back(Answer{event.request, outcome, problem, 0});
    return;
  }
  const Job& job = admit(state, event.owner, event.limits, event.spec, event.unix_s, now_s);
  const std::string text = id_text(job.id) + " (" + job.spec.name + ") is queued" + deadline_answer(state, job, now_s);
  state.actions.emplace_back(Answer{event.request, Outcome::kDone, text, job.id});
}

static Job* find_job(ClusterState& state, const std::string& id_or_name, const Owner& owner, std::string& problem) {
  Job* found = nullptr;
  for (auto& [id, job] : state.jobs) {
    if (id_text(id) == id_or_name) return &job;
    if (job.spec.name != id_or_name || !job.live()) continue;
    const bool better = found == nullptr || job.owner.uid == owner.uid;
    if (found != nullptr && found->owner.uid != owner.uid && job.owner.uid != owner.uid) {
      problem = "several jobs are named " + id_or_name + "; give an id, as queue shows it";
    }
    if (better) found = &job;
  }
  if (found != nullptr && found->owner.uid == owner.uid) problem.clear();
  if (found == nullptr) problem = "no job " + id_or_name + " is in the queue; elastictrain queue lists them";
  return problem.empty() ? found : nullptr;
}

static void change_priority(ClusterState& state, Job& job, std::int32_t priority, double now_s) {
  job.spec.priority = priority;
  decide_soon(state, now_s, id_text(job.id) + " has another priority");
}

static std::string carry_out(ClusterState& state, Job& job, const Command& command, double now_s) {
  const std::string id = id_text(job.id);
  const Order order = command.order;
  if (order == Order::kPause && job.paused) return id + " is paused already";
  if (order == Order::kResume && !job.paused) return id + " is not paused";
  if (order == Order::kCancel && job.phase == Phase::kEnding) return id + " is ending already";
  write_record(state, record::Ordered{job.id, order, command.priority, command.owner.name});
  if (order == Order::kCancel) {
    end_job(state, job, "cancelled by " + command.owner.name, now_s);
    return id + (job.live() ? " is to end" : " is cancelled");
  }
  if (order == Order::kPriority) {
    change_priority(state, job, command.priority, now_s);
    return id + " has priority " + std::to_string(command.priority);
  }
  job.paused = order == Order::kPause;
  job.why = job.paused ? "paused by " + command.owner.name : "not considered yet";
  decide_soon(state, now_s, id + (job.paused ? " is paused" : " goes on"));
  return id + (job.paused ? " is paused" : " goes on");
}

void handle(ClusterState& state, const Command& event, double now_s) {
  std::string problem;
  Job* const job = find_job(state, event.job, event.owner, problem);
  const auto answer = [&](Outcome outcome, const std::string& text) {
    state.actions.emplace_back(Answer{event.request, outcome, text, job == nullptr ? 0 : job->id});
  };
  if (job == nullptr) return answer(Outcome::kUnavailable, problem);
  if (!may_act_on(event.owner, *job)) {
    return answer(Outcome::kNotPermitted, "job " + id_text(job->id) + " belongs to user " + job->owner.name);
  }
  if (!job->live()) return answer(Outcome::kUnavailable, "job " + id_text(job->id) + " has ended");
  if (event.order == Order::kPriority && event.priority > event.limits.priority && !event.owner.of_cluster) {
    return answer(Outcome::kNotPermitted, "user " + event.owner.name + " may give at most priority " +
                                              std::to_string(event.limits.priority) + " (limits.priority)");
  }
  if (event.order == Order::kPause && at_work(state, *job)) {
    return answer(Outcome::kInvalid, "job " + id_text(job->id) +
                                         " writes no checkpoints, so it cannot be paused; set checkpoint.directory, or "
                                         "suspended_per_slot in the cluster's file");
  }
  answer(Outcome::kDone, carry_out(state, *job, event, now_s));
}

}  // namespace elastictrain::cluster_core
