// What the journal of the previous process says, and the rules that hold at any time.
#include <algorithm>
#include <type_traits>

#include "supervisor/cluster/core/state.h"

namespace elastictrain::cluster_core {
namespace {

using heuristics::leases::LeaseBook;

// One record at a time, into the members of a Cluster.
struct Recall {
  std::map<JobId, Job>& jobs;
  LeaseBook& book;
  std::vector<HostLine>& hosts;
  std::vector<HostLine>& helpers;
  std::vector<double>& lengths;
  JobId& last_job;
  const Settings& settings;
  double now_s;

  Job* job(JobId id) const {
    const auto found = jobs.find(id);
    return found == jobs.end() ? nullptr : &found->second;
  }

  // Time counts up to here, with the slots that the job had.
  void account(Job& job) const {
    const double passed_s = std::max(0.0, now_s - job.settled_s);
    const auto leased = static_cast<double>(book.in_use(job.id));
    job.settled_s = now_s;
    if (leased == 0) return;
    job.running_s += passed_s;
    job.slot_s += passed_s * leased;
  }

  void operator()(const record::Began&) const {}
  void operator()(const record::Decided& record) const {
    for (const auto& share : record.shares) {
      if (Job* const found = job(share.job)) {
        found->share = share.after;
        found->beside = share.beside;
        found->why = share.why;
      }
    }
  }
  void operator()(const record::Overdue&) const {}
  void operator()(const record::PolicyAsked&) const {}
  void operator()(const record::Hosts& record) const {
    hosts = record.hosts;
    for (std::uint32_t host = 0; host < hosts.size(); ++host) book.set_host(host, hosts[host].slots);
  }
  void operator()(const record::Helpers& record) const { helpers = record.change.helpers; }
  void operator()(const record::Submitted& record) const {
    last_job = std::max(last_job, record.job);
    Job& added = jobs[record.job];
    added.id = record.job;
    added.spec = record.spec;
    added.owner = record.owner;
    added.limits = settings.limits(record.owner);
    added.submitted_unix_s = record.unix_s;
    added.submitted_s = added.settled_s = now_s;
  }
  void operator()(const record::Leased& record) const {
    Job* const found = job(record.job);
    if (found == nullptr || !found->live()) return;
    account(*found);
    if (found->first_start_s == kNever && !record.slots.empty()) found->first_start_s = now_s;
    if (record.beside != found->packed.beside) found->packed = {record.beside, record.version, {}};
    book.recall_lease(record.job, {record.version, record.slots, record.hold, record.beside, record.moves}, now_s);
  }
  void operator()(const record::Moving& record) const {
    Job* const found = job(record.job);
    if (found == nullptr || !found->live()) return;
    found->trial.reset();
    found->move = {record.from, record.to, record.why, now_s, false, record.undoes, record.kept};
  }
  void operator()(const record::MoveEnded& record) const {
    Job* const found = job(record.job);
    if (found == nullptr) return;
    found->trial.reset();
    if (record.outcome == record::MoveOutcome::kDone && found->move)
      found->trial = {found->move->from, found->move->to};
    found->move.reset();
  }
  void operator()(const record::Stood& record) const {
    Job* const found = job(record.job);
    if (found == nullptr || !found->live()) return;
    account(*found);
    book.recall_stand(record.job, record.slots);
  }
  void operator()(const record::Returned& record) const {
    Job* const found = job(record.job);
    if (found == nullptr || !found->live()) return;
    account(*found);
    book.recall_return(record.job, record.slots);
  }
  void operator()(const record::Started& record) const {
    Job* const found = job(record.job);
    if (found == nullptr || !found->live()) return;
    found->phase = Phase::kStarting;
    found->resume = record.resume;
    ++found->attempt;
  }
  void operator()(const record::HasJoined& record) const {
    Job* const found = job(record.job);
    if (found == nullptr || !found->live()) return;
    if (found->phase != Phase::kEnding) found->phase = Phase::kJoined;
    found->resume = true;
    found->directory = record.directory;
    found->pid = record.pid;
    found->process_mark = record.process_mark;
    found->spec.suspends = record.suspends;
    book.recall_join(record.job, {record.lease, record.holds}, now_s);
  }
  void operator()(const record::Learned& record) const {
    Job* const found = job(record.job);
    if (found == nullptr || !found->live()) return;
    if (record.start_s > 0) found->measured_start_s = record.start_s;
    if (record.samples_total) found->spec.samples_total = record.samples_total;
  }
  void operator()(const record::Lost& record) const {
    Job* const found = job(record.job);
    if (found != nullptr && found->live()) found->phase = Phase::kLost;
  }
  void operator()(const record::Ordered& record) const {
    Job* const found = job(record.job);
    if (found == nullptr || !found->live()) return;
    if (record.order == Order::kPriority) found->spec.priority = record.priority;
    if (record.order == Order::kPause || record.order == Order::kResume) found->paused = record.order == Order::kPause;
    if (record.order != Order::kCancel) return;
    found->phase = Phase::kEnding;
    found->why = "cancelled by " + record.by;
  }
  void operator()(const record::Left& record) const {
    Job* const found = job(record.job);
    if (found == nullptr || !found->live()) return;
    found->phase = Phase::kQueued;
    found->resume = found->resume && record.resume;
    found->beside = 0;
  }
  void operator()(const record::HasEnded& record) const {
    Job* const found = job(record.job);
    if (found == nullptr) return;
    found->phase = Phase::kEnded;
    found->exit_status = record.status;
    found->why = record.why;
    found->samples = record.samples;
    found->slot_s = record.slot_s;
    for (const RateSeen& rate : record.rates) {
      if (found->rates.size() < kMostRatesOfEnded) found->rates[rate.workers] = {rate.samples_per_s, rate.views};
    }
    found->ended_s = now_s;
    found->move.reset();
    found->trial.reset();
    found->share = 0;
    found->beside = 0;
    book.forget(record.job);
    const auto length = static_cast<double>(record.samples);
    if (record.status == 0 && length > 0)
      lengths.insert(std::upper_bound(lengths.begin(), lengths.end(), length), length);
  }
};

}  // namespace

void recall_record(ClusterState& state, const Record& record, double now_s) {
  std::visit(
      Recall{state.jobs, state.book, state.hosts, state.helpers, state.lengths, state.last_job, state.settings, now_s},
      record);
  forget_old(state);
}

bool needs(const ClusterState& state, const Record& record) {
  return std::visit(
      [&](const auto& one) {
        using One = std::decay_t<decltype(one)>;
        if constexpr (std::is_same_v<One, record::Began> || std::is_same_v<One, record::PolicyAsked>) {
          return false;
        } else if constexpr (std::is_same_v<One, record::Hosts>) {
          return true;
        } else if constexpr (std::is_same_v<One, record::Helpers>) {
          return one.change.helpers == state.helpers;
        } else if constexpr (std::is_same_v<One, record::Decided>) {
          return std::any_of(one.shares.begin(), one.shares.end(), [&](const record::Share& share) {
            const auto found = state.jobs.find(share.job);
            return found != state.jobs.end() && found->second.live();
          });
        } else if constexpr (std::is_same_v<One, record::Learned>) {
          const auto found = state.jobs.find(one.job);
          return found != state.jobs.end() &&
                 ((one.start_s > 0 && one.start_s == found->second.measured_start_s) ||
                  (one.samples_total && one.samples_total == found->second.spec.samples_total));
        } else {
          return state.jobs.contains(one.job) || one.job == state.last_job;  // no later job has its number
        }
      },
      record);
}

std::vector<std::string> broken_rules(const ClusterState& state) {
  std::vector<std::string> broken = state.book.broken_rules();
  std::map<std::uint32_t, std::uint32_t> slots_of_user;
  for (const auto& [id, job] : state.jobs) {
    const auto& lease = state.book.lease(id);
    if (!job.live() && !state.book.owned(id).empty()) broken.push_back(id_text(id) + " has ended and has slots");
    if (job.phase == Phase::kJoined && job.connection == 0) {
      broken.push_back(id_text(id) + " has joined without a connection");
    }
    if (job.connection != 0 && state.connections.at(job.connection) != id)
      broken.push_back(id_text(id) + " has another's connection");
    if (!job.live()) continue;
    const bool gives_up = pinned(job) || lease.hold;
    if (!gives_up) slots_of_user[job.owner.uid] += static_cast<std::uint32_t>(lease.slots.size());
    for (const auto slot : lease.slots) {
      if (slot.host >= state.hosts.size()) broken.push_back(id_text(id) + " has a slot of a host that is not there");
    }
  }
  for (const auto& [id, job] : state.jobs) {
    if (!job.live() || job.limits.slots == kNoLimit || state.resuming || state.decide_s != kNever) continue;
    if (slots_of_user[job.owner.uid] > job.limits.slots)
      broken.push_back("user " + job.owner.name + " is above the limit");
  }
  return broken;
}

}  // namespace elastictrain::cluster_core
