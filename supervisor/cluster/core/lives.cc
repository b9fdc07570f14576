// Runs that come, say what they hold, are lost, come back and end.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "supervisor/protocol/duration_text.h"

#include "supervisor/cluster/core/cluster.h"

namespace elastictrain::jobs {

using heuristics::leases::Claims;

namespace {

constexpr double kOtherGain = 0.1;    // of that before
constexpr double kOtherLength = 0.1;  // of the length before

constexpr double kUnreported_s =
    2;  // what a report says is older than it by a heartbeat, and the next one is a second off

constexpr int kPreempted = 75;          // a run's state is saved, it may be started again
constexpr int kUnavailableStatus = 69;  // too few workers could start: a host was not there
constexpr double kFirstDelay_s = 1;
constexpr double kLongestDelay_s = 60;

// A run ends with kUnavailableStatus also when it has too few workers left and has saved nothing: then there is nothing
// to go on with.
bool may_be_started_again(const Job& job, int status) {
  return status == kPreempted || (status == kUnavailableStatus && job.samples <= job.samples_at_start);
}

double delay_s(std::uint32_t failures) {
  return std::min(kLongestDelay_s, kFirstDelay_s * static_cast<double>(1U << (failures - 1)));
}

bool asks_for_more(const JobSpec& now, const JobSpec& before) {
  return now.min > before.min || now.hosts != before.hosts || now.one_host != before.one_host ||
         now.most_hosts != before.most_hosts;
}

// Estimates of a length change with each report a little.
bool is_other_length(const std::optional<double>& before, const std::optional<double>& now) {
  if (before.has_value() != now.has_value()) return true;
  return now && std::abs(*now - *before) > kOtherLength * *before;
}

// Of how much a job gains from slots; its unit is its own.
bool is_other_goodput(const std::vector<heuristics::sharing::Curve::Point>& before,
                      const std::vector<heuristics::sharing::Curve::Point>& now) {
  if (before.size() != now.size()) return true;
  for (std::size_t i = 0; i < now.size(); ++i) {
    const double gain = now[i].rate / now.front().rate, gained = before[i].rate / before.front().rate;
    if (now[i].slots != before[i].slots || std::abs(gain - gained) > kOtherGain * gained) return true;
  }
  return false;
}

std::string why_it_left(int status) {
  return status == kPreempted ? "left with a checkpoint" : "too few of its workers could start";
}

}  // namespace

Job* Cluster::job_of(Connection connection) {
  const auto found = connections_.find(connection);
  return found == connections_.end() ? nullptr : &jobs_.at(found->second);
}

// Its workers may run, and it cannot leave them now without losing what they have done.
bool Cluster::at_work(const Job& job) const {
  if (job.phase != Phase::kJoined) return job.resume && !book_.owned(job.id).empty();
  return !job.spec.suspends && !book_.held(job.id).empty() && !can_stand(job);
}

// What it has stays as it is, whatever the policy says.
bool Cluster::pinned(const Job& job) const {
  return job.phase == Phase::kLost || job.phase == Phase::kEnding;
}

// --- Joining

// The job that a run has been so far; none: it is not known yet.
Job* Cluster::known(const Join& event, std::string& problem) {
  for (auto& [id, job] : jobs_) {
    const bool same_user = job.owner.uid == event.owner.uid;
    if (!event.job.empty() && id_text(id) == event.job && job.live()) {
      if (!same_user && !event.owner.of_cluster) problem = "job " + event.job + " belongs to another user";
      return &job;
    }
    if (job.live() && same_user && job.spec.name == event.spec.name &&
        (event.job.empty() || job.directory == event.directory)) {
      return &job;
    }
  }
  return nullptr;
}

// Empty: the run may be this job, or a new one (none is given).
std::string Cluster::refusal(const Join& event, const Job* job) const {
  Outcome outcome;
  if (job == nullptr) {
    const std::string problem = refusal(event.owner, event.limits, event.spec, outcome);
    if (!problem.empty()) return problem;
  } else if (job->connection != 0 && job->pid != event.pid && job->directory != event.directory) {
    return "the name " + job->spec.name + " is in use by job " + id_text(job->id) + "; choose another: --name";
  }
  // After a restart the record may be older than the truth; that another user says so is no reason to take a slot from
  // the job that has it.
  const bool trusted = event.owner.of_cluster;
  if (job != nullptr && !(resuming_ && trusted) && asks_for_more(event.spec, job->spec)) {
    const std::string problem = misfit(event.owner, event.limits, event.spec, outcome);
    if (!problem.empty()) return problem;
  }
  const JobId id = job == nullptr ? last_job_ + 1 : job->id;
  if (!trusted) {
    const std::string problem = claims_too_much(event, id);
    if (!problem.empty()) return problem;
  }
  const Claims claims = resuming_ && trusted ? Claims::kAny : resuming_ || trusted ? Claims::kFree : Claims::kOwn;
  return book_.check(id, {event.lease, event.holds}, claims);
}

// Slots that its job does not have yet count with those of its user's jobs.
std::string Cluster::claims_too_much(const Join& event, JobId id) const {
  const Slots owned = book_.owned(id);
  Slots claimed;
  std::set_difference(event.holds.begin(), event.holds.end(), owned.begin(), owned.end(), std::back_inserter(claimed));
  if (claimed.empty()) return "";
  std::size_t sum = claimed.size();
  for (const auto& [other, job] : jobs_) {
    if (job.live() && job.owner.uid == event.owner.uid) sum += book_.owned(other).size();
  }
  if (sum <= event.limits.slots) return "";
  return "with what it claims user " + event.owner.name + " would have " + std::to_string(sum) +
         " slots and may have " + std::to_string(event.limits.slots) + " (limits.slots)";
}

// What is refused leaves nothing behind: a job is made only of a run that is let in.
void Cluster::handle(const Join& event, double now_s) {
  std::string problem;
  Job* job = known(event, problem);
  if (problem.empty()) problem = refusal(event, job);
  if (!problem.empty()) {
    actions_.emplace_back(Refuse{event.connection, problem});
    return;
  }
  if (job == nullptr) job = &admit(event.owner, event.limits, event.spec, event.unix_s, now_s);
  take_in(*job, event, now_s);
}

void Cluster::take_in(Job& job, const Join& event, double now_s) {
  if (job.connection != 0) {
    connections_.erase(job.connection);
    actions_.emplace_back(Refuse{job.connection, "another supervisor of this run has come"});
  }
  job.connection = event.connection;
  connections_[event.connection] = job.id;
  job.directory = event.directory;
  job.pid = event.pid;
  job.process_mark = event.process_mark;
  job.spec.min = event.spec.min;
  job.spec.max = event.spec.max;
  job.spec.start = event.spec.start;
  job.spec.suspends = event.spec.suspends;
  job.spec.stands = event.spec.stands;
  job.spec.one_host = event.spec.one_host;
  job.spec.most_hosts = event.spec.most_hosts;
  job.spec.hosts = event.spec.hosts;
  const bool says_length = event.spec.samples_total && event.spec.samples_total != job.spec.samples_total;
  if (says_length) job.spec.samples_total = event.spec.samples_total;
  const bool ending = job.phase == Phase::kEnding;
  if (!ending) job.phase = Phase::kJoined;
  job.resume = true;
  job.reported = false;
  job.moves = event.moves;
  job.place_reported = 0;
  write(
      record::HasJoined{job.id, job.directory, job.pid, job.spec.suspends, event.lease, event.holds, job.process_mark});
  if (says_length) write(record::Learned{.job = job.id, .samples_total = job.spec.samples_total});
  actions_.emplace_back(Welcome{event.connection, job.id});
  hear(job, event.lease, event.holds, false, now_s);
  if (ending) {
    actions_.emplace_back(SendEnd{job.connection, job.why});
    return;
  }
  send_lease(job);
  decide_soon(now_s, id_text(job.id) + " joins");
}

void Cluster::hear(Job& job, std::uint64_t lease, const Slots& holds, bool stands, double now_s) {
  account(job, now_s);
  const bool was_away = is_away(job);
  const Slots returned = book_.hear(job.id, {lease, holds}, now_s);
  if (!returned.empty()) write(record::Returned{job.id, returned});
  if (job.move) take_moved(job, now_s);
  const Slots still = stands ? book_.stand(job.id, lease) : Slots();
  if (!still.empty()) write(record::Stood{job.id, still});
  const bool gave_up = !returned.empty() || !still.empty();
  if ((job.to_stand || left_idle_) && gave_up) decide_soon(now_s, id_text(job.id) + " has given up slots");
  if (job.overdue_reported && gave_up) decide_soon(now_s, "overdue slots are back");
  if (book_.recalled_since(job.id) == kNever) job.overdue_reported = false;
  if ((gave_up || was_away != is_away(job)) && !resuming_) settle(now_s);
}

void Cluster::handle(const Report& event, double now_s) {
  Job* const job = job_of(event.connection);
  if (job == nullptr) return;
  const std::string problem = book_.check(job->id, {event.lease, event.holds}, Claims::kOwn);
  if (!problem.empty()) {
    actions_.emplace_back(Tell{"job " + id_text(job->id) + " says what cannot be: " + problem, true});
    actions_.emplace_back(Refuse{event.connection, problem});
    connections_.erase(event.connection);
    return lose(*job, now_s);
  }
  take_figures(*job, event, now_s);
  hear(*job, event.lease, event.holds, event.stands, now_s);
}

// Workers train on all slots that it is meant to have.
void Cluster::take_start(Job& job, const Report& report, record::Learned& learned, double now_s) {
  const auto& lease = book_.lease(job.id);
  const bool all = report.phase == "training" && report.lease == lease.version && report.workers >= job.share &&
                   report.workers == lease.slots.size();
  const double took_s = all ? job.starts.train(now_s) : 0;
  if (took_s <= 0) return;
  job.measured_start_s = learned.start_s = took_s;
  learned.workers = report.workers;
}

void Cluster::take_length(Job& job, const Report& report, record::Learned& learned, double now_s) {
  if (report.samples_total && report.samples_total != job.spec.samples_total) {
    job.spec.samples_total = learned.samples_total = report.samples_total;
  }
  const auto before = length_of(job);
  const std::uint64_t expected_before = job.expected_samples;
  job.expected_samples = report.expected_samples;
  job.expected_error = report.expected_error;
  if (!is_other_length(before, length_of(job))) return;
  if (job.expected_samples != expected_before) {
    learned.expected_samples = job.expected_samples;
    learned.expected_error = job.expected_error;
  }
  decide_soon(now_s, "the length of " + id_text(job.id) + " is estimated anew");
}

void Cluster::take_figures(Job& job, const Report& report, double now_s) {
  const auto wants = job.wants;
  job.reported = true;
  const bool starts = job.run_phase != "training" && report.phase == "training" && job.step == 0;
  if (starts && job.first_start_s != kNever) job.start_s = std::max(0.0, now_s - std::max(job.placed_s, job.lost_s));
  job.run_phase = report.phase;
  job.workers = report.workers;
  record::Learned learned{.job = job.id};
  take_start(job, report, learned, now_s);
  job.step = report.step;
  if (report.samples > job.samples && job.failures > 0) job.failures = 0;
  if (report.samples > 0) job.samples = report.samples;  // one that is taken up does not know it before its first step
  job.memory_bytes = report.memory_bytes;
  job.wants = report.wants;
  const bool finds_lost = take_lost(job, report.lost_hosts, now_s);
  take_length(job, report, learned, now_s);
  take_goodput(job, report, now_s);
  const bool measured = take_rates(job, report, learned);
  if (!learned.empty()) write(std::move(learned));
  if (wants != job.wants) decide_soon(now_s, id_text(job.id) + " wants another size");
  if (finds_lost) decide_soon(now_s, id_text(job.id) + " has lost a host");
  if (measured) decide_soon(now_s, id_text(job.id) + " was measured");
  if (falls_behind(job, now_s)) decide_soon(now_s, id_text(job.id) + " falls behind its deadline");
}

// A run that was taken over says it again only when its policy has looked anew.
void Cluster::take_goodput(Job& job, const Report& report, double now_s) {
  if (report.goodput.empty()) return;
  const bool other = is_other_goodput(job.goodput, report.goodput);
  job.goodput = report.goodput;
  if (spec_->adapts_batch && other) decide_soon(now_s, id_text(job.id) + " says its goodput anew");
}

// --- Ends and losses

void Cluster::handle(const RunEnded& event, double now_s) {
  Job* const job = job_of(event.connection);
  if (job == nullptr) return;
  const bool goes_on = may_be_started_again(*job, event.status) && job->own() && job->phase != Phase::kEnding;
  if (goes_on) {
    leave(*job, event.status, now_s);
  } else {
    finish(*job, event.status, event.status == 0 ? "done" : "its run ended", now_s);
  }
}

void Cluster::handle(const Disconnected& event, double now_s) {
  Job* const job = job_of(event.connection);
  if (job != nullptr) lose(*job, now_s);
}

void Cluster::lose(Job& job, double now_s) {
  connections_.erase(job.connection);
  job.connection = 0;
  job.lost_s = now_s;
  job.probed_s = now_s;
  if (job.phase != Phase::kEnding) {
    job.phase = Phase::kLost;
    job.resume = true;
    write(record::Lost{job.id});
  }
  actions_.emplace_back(Probe{job.id});
  decide_soon(now_s, id_text(job.id) + " is lost");
}

void Cluster::handle(const ProcessEnded& event, double now_s) {
  const auto found = jobs_.find(event.job);
  if (found == jobs_.end() || found->second.attempt != event.attempt) return;
  Job& job = found->second;
  job.process = false;
  if (!job.live() || job.connection != 0) return;
  if (job.phase == Phase::kStarting) {
    failed(job, event.status, event.text, now_s);
  } else if (pinned(job)) {
    job.lost_s = now_s;  // its agents were not orphans before
    job.probed_s = now_s;
    actions_.emplace_back(Probe{job.id});
  }
}

// A run that was started and has ended before it joined.
void Cluster::failed(Job& job, int status, const std::string& why, double now_s) {
  const bool again = job.resume || status == kPreempted || status == kUnavailableStatus || status > 128;
  ++job.failures;
  if (!again || job.failures >= settings_.max_failures) {
    return finish(job, status, why.empty() ? "its run ended before it joined" : why, now_s);
  }
  const bool may_hold = !book_.held(job.id).empty() || job.resume;
  job.not_before_s = now_s + delay_s(job.failures);
  if (!may_hold) return left(job, status, "its run did not start: " + why, now_s);
  job.phase = Phase::kQueued;
  job.lost_s = now_s;
  take_lost(job, {}, now_s);  // who found them lost is not there any more
  write(record::Left{job.id, status, "is taken up again: " + why, job.resume});
}

// Its run has ended, and may be started again.
void Cluster::leave(Job& job, int status, double now_s) {
  if (status == kUnavailableStatus && job.samples == 0) job.resume = false;  // it has saved nothing
  const std::string why = why_it_left(status);
  const bool progress = job.samples > job.samples_at_start;
  // While a host is lost, its waiting time sets the pace: the job is in the queue as long as that lasts.
  const bool host_lost = status == kUnavailableStatus && !job.lost_hosts.empty();
  if (!host_lost) job.failures = progress ? 0 : job.failures + 1;
  if (job.failures >= settings_.max_failures) {
    return finish(job, status, why + ", again and again without progress", now_s);
  }
  const bool waits = !progress && !host_lost;
  if (waits) job.not_before_s = now_s + delay_s(job.failures);
  left(job, status, why, now_s);
}

// It has no process any more, and waits to be started again.
void Cluster::left(Job& job, int status, const std::string& why, double now_s) {
  account(job, now_s);
  connections_.erase(job.connection);
  job.connection = 0;
  job.phase = Phase::kQueued;
  take_lost(job, {}, now_s);  // who found them lost is not there any more
  job.why = why;
  job.workers = 0;
  job.run_phase.clear();
  const Slots slots = book_.vacate(job.id);
  if (job.move || job.trial) end_move(job, record::MoveOutcome::kSuperseded, "it has no worker any more", now_s);
  job.starts.change(now_s, job.share, 0);
  job.share = 0;
  job.beside = 0;
  job.packed = {};
  write(record::Left{job.id, status, why, job.resume});
  if (!slots.empty()) write(record::Returned{job.id, slots});
  if (!resuming_) settle(now_s);
  decide_soon(now_s, id_text(job.id) + " leaves");
}

std::vector<RateSeen> Cluster::rates_of(const Job& job) {
  std::vector<RateSeen> rates;
  for (const auto& [workers, measured] : job.rates) rates.push_back({workers, measured.samples_per_s, measured.views});
  return rates;
}

// The last steps of a run are in no report.
void Cluster::count_last_steps(Job& job) const {
  const auto left = left_s(job);
  if (job.spec.samples_total && left && *left <= kUnreported_s) job.samples = *job.spec.samples_total;
}

void Cluster::finish(Job& job, int status, const std::string& why, double now_s) {
  account(job, now_s);
  if (status == 0) count_last_steps(job);
  connections_.erase(job.connection);
  job.connection = 0;
  const bool cancelled = job.phase == Phase::kEnding;
  job.phase = Phase::kEnded;
  if (!cancelled || job.why.empty()) job.why = why;
  job.exit_status = status;
  job.ended_s = now_s;
  job.move.reset();
  job.trial.reset();
  job.share = 0;
  job.beside = 0;
  job.slots_in_time = 0;
  job.workers = 0;
  gone_.push_back({job.seen_as, job.seen_priority, job.spec.start, job.slot_s, static_cast<double>(job.samples)});
  if (status == 0 && job.samples > 0) {
    const auto length = static_cast<double>(job.samples);
    lengths_.insert(std::upper_bound(lengths_.begin(), lengths_.end(), length), length);
  }
  book_.forget(job.id);
  write(record::HasEnded{job.id, status, job.why, job.samples, job.slot_s, rates_of(job)});
  job.rates_by_hosts.clear();
  while (job.rates.size() > kMostRatesOfEnded) job.rates.erase(std::prev(job.rates.end()));
  if (!resuming_) settle(now_s);
  decide_soon(now_s, id_text(job.id) + " ends");
  forget_old();
}

// Tells a job to end: at once where it has no process.
void Cluster::end(Job& job, const std::string& why, double now_s) {
  const bool nothing_runs = job.phase == Phase::kQueued && !job.resume;
  job.why = why;
  if (nothing_runs || (job.phase == Phase::kQueued && book_.owned(job.id).empty())) {
    return finish(job, 130, why, now_s);
  }
  const Phase before = job.phase;
  job.phase = Phase::kEnding;
  job.ending_s = now_s;
  job.lost_s = now_s;
  job.signals = 0;
  if (before == Phase::kJoined) {
    actions_.emplace_back(SendEnd{job.connection, why});
  } else if (job.process) {
    actions_.emplace_back(SignalRun{job.id, job.attempt, false});
  } else {
    actions_.emplace_back(Probe{job.id});
  }
  decide_soon(now_s, id_text(job.id) + " is to end");
}

// --- What time brings

void Cluster::look_after(Job& job, double now_s) {
  if (job.phase == Phase::kJoined) {
    if (job.move && !job.move->back && now_s >= job.move->begun_s + settings_.join_timeout_s) {
      job.move->back = true;
      decide_soon(now_s, id_text(job.id) + " does not get to its new slots");
    }
    return recall_in_time(job, now_s);
  }
  if (job.phase == Phase::kStarting && now_s - job.lost_s >= settings_.join_timeout_s) {
    end(job, "it was started and did not join within " + protocol::duration_text(settings_.join_timeout_s), now_s);
  }
  if (!pinned(job)) return;
  if (job.connection == 0 && now_s - job.probed_s >= settings_.probe_interval_s) {
    job.probed_s = now_s;
    actions_.emplace_back(Probe{job.id});
  }
  if (job.phase == Phase::kEnding) press(job, now_s);
}

// Slots that are not given back in time are shown and not granted; an own run is ended.
void Cluster::recall_in_time(Job& job, double now_s) {
  if (job.overdue_reported || book_.recalled_since(job.id) + settings_.recall_timeout_s > now_s) return;
  job.overdue_reported = true;
  const Slots slots = book_.overdue(job.id, now_s - settings_.recall_timeout_s);
  write(record::Overdue{job.id, slots});
  actions_.emplace_back(Tell{"job " + id_text(job.id) + " has not given back " + std::to_string(slots.size()) +
                                 " slots within cluster.recall_timeout_ms",
                             true});
  decide_soon(now_s, "slots are overdue");
  if (job.own()) end(job, "it did not give back its slots in time", now_s);
}

// TERM, then KILL to the supervisor of an own run that does not end. Its agents end its workers.
void Cluster::press(Job& job, double now_s) {
  const double steps = (now_s - job.ending_s) / std::max(0.001, settings_.recall_timeout_s);
  if (!job.own() || steps < job.signals + 1 || job.signals >= 2) return;
  ++job.signals;
  actions_.emplace_back(SignalRun{job.id, job.attempt, job.signals == 2});
}

void Cluster::handle(const Probed& event, double now_s) {
  const auto found = jobs_.find(event.job);
  if (found == jobs_.end() || !pinned(found->second) || found->second.connection != 0) return;
  Job& job = found->second;
  using State = Probed::State;
  if (event.state == State::kEnded) {
    const bool goes_on = may_be_started_again(job, event.status) && job.own() && job.phase == Phase::kLost;
    return goes_on ? leave(job, event.status, now_s)
                   : finish(job, event.status, event.status == 0 ? "done" : "its run ended", now_s);
  }
  if (event.state == State::kAlive) job.lost_s = now_s;
  if (event.state == State::kAlive || job.process) return;
  const bool waited = !resuming_ || now_s >= resume_until_s_;
  if (job.phase == Phase::kLost && job.own()) {
    if (event.state == State::kNoRun && waited) {
      job.resume = false;
      job.samples = 0;
      return left(job, 0, "its run had not begun", now_s);
    }
    if (event.state == State::kDead && job.failures < settings_.max_failures) {
      job.failures += job.samples > job.samples_at_start ? 0 : 1;
      return start(job, now_s);
    }
  }
  const bool holds_nothing = event.state == State::kNoRun && waited;
  if (holds_nothing || now_s - job.lost_s >= settings_.orphan_grace_s) {
    finish(job, kUnavailableStatus, "its supervisor was lost and did not come back", now_s);
  }
}

}  // namespace elastictrain::jobs
