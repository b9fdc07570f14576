// Runs that come, say what they hold, are lost, come back and end.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "supervisor/cluster/core/state.h"
#include "supervisor/protocol/check.h"
#include "supervisor/protocol/display_text.h"

namespace elastictrain::cluster_core {

using heuristics::leases::Claims;

namespace {

constexpr double kOtherGain = 0.1;    // of that before
constexpr double kOtherLength = 0.1;  // of the length before

// What a report says is older than it by a heartbeat, and the next one is a second off.
constexpr double kUnreported_s = 2;

constexpr int kPreempted = 75;          // a run's state is saved, it may be started again
constexpr int kUnavailableStatus = 69;  // too few workers could start: a host was not there
constexpr double kFirstDelay_s = 1;     // before a job that failed is started again; doubles with each failure in a row
constexpr double kLongestDelay_s = 60;

// A run ends with kUnavailableStatus also when it has too few workers left and has saved nothing: then there is nothing
// to go on with.
bool may_be_started_again(const Job& job, int status) {
  return status == kPreempted || (status == kUnavailableStatus && job.samples <= job.samples_at_start);
}

double delay_s(std::uint32_t failures) {
  ET_CHECK(failures > 0, "a job waits because it has failed");
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

static Job* job_of(ClusterState& state, Connection connection) {
  const auto found = state.connections.find(connection);
  if (found == state.connections.end()) return nullptr;
  Job& job = state.jobs.at(found->second);
  ET_CHECK(job.connection == connection && job.live(), "a connection and the job of its run know each other");
  return &job;
}

// Its workers may run, and it cannot leave them now without losing what they have done.
bool at_work(const ClusterState& state, const Job& job) {
  if (job.phase != Phase::kJoined) return job.resume && !state.book.owned(job.id).empty();
  return !job.spec.suspends && !state.book.held(job.id).empty() && !can_stand(state, job);
}

// What it has stays as it is, whatever the policy says.
bool pinned(const Job& job) {
  return job.phase == Phase::kLost || job.phase == Phase::kEnding;
}

// --- Joining

// The job that a run has been so far; none: it is not known yet.
static Job* known_run(ClusterState& state, const Join& event, std::string& problem) {
  for (auto& [id, job] : state.jobs) {
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

// Slots that its job does not have yet count with those of its user's jobs.
static std::string claims_too_much(const ClusterState& state, const Join& event, JobId id) {
  const Slots owned = state.book.owned(id);
  Slots claimed;
  std::set_difference(event.holds.begin(), event.holds.end(), owned.begin(), owned.end(), std::back_inserter(claimed));
  if (claimed.empty()) return "";
  std::size_t sum = claimed.size();
  for (const auto& [other, job] : state.jobs) {
    if (job.live() && job.owner.uid == event.owner.uid) sum += state.book.owned(other).size();
  }
  if (sum <= event.limits.slots) return "";
  return "with what it claims user " + event.owner.name + " would have " + std::to_string(sum) +
         " slots and may have " + std::to_string(event.limits.slots) + " (limits.slots)";
}

// Empty: the run may be this job, or a new one (none is given).
std::string refusal(const ClusterState& state, const Join& event, const Job* job) {
  Outcome outcome;
  if (job == nullptr) {
    const std::string problem = refusal(state, event.owner, event.limits, event.spec, outcome);
    if (!problem.empty()) return problem;
  } else if (job->connection != 0 && job->pid != event.pid && job->directory != event.directory) {
    return "the name " + job->spec.name + " is in use by job " + id_text(job->id) + "; choose another: --name";
  }
  // After a restart the record may be older than the truth; that another user says so is no reason to take a slot from
  // the job that has it.
  const bool trusted = event.owner.of_cluster;
  if (job != nullptr && !(state.resuming && trusted) && asks_for_more(event.spec, job->spec)) {
    const std::string problem = misfit(state, event.owner, event.limits, event.spec, outcome);
    if (!problem.empty()) return problem;
  }
  const JobId id = job == nullptr ? state.last_job + 1 : job->id;
  if (!trusted) {
    const std::string problem = claims_too_much(state, event, id);
    if (!problem.empty()) return problem;
  }
  const Claims claims = state.resuming && trusted   ? Claims::kAny
                        : state.resuming || trusted ? Claims::kFree
                                                    : Claims::kOwn;
  return state.book.check(id, {event.lease, event.holds}, claims);
}

static void hear_run(ClusterState& state, Job& job, std::uint64_t lease, const Slots& holds, bool stands,
                     double now_s) {
  account_for(state, job, now_s);
  const bool was_away = is_away(state, job);
  const Slots returned = state.book.hear(job.id, {lease, holds}, now_s);
  if (!returned.empty()) write_record(state, record::Returned{job.id, returned});
  if (job.move) take_moved(state, job, now_s);
  const Slots still = stands ? state.book.stand(job.id, lease) : Slots();
  if (!still.empty()) write_record(state, record::Stood{job.id, still});
  const bool gave_up = !returned.empty() || !still.empty();
  if ((job.to_stand || state.left_idle) && gave_up) decide_soon(state, now_s, id_text(job.id) + " has given up slots");
  if (job.overdue_reported && gave_up) decide_soon(state, now_s, "overdue slots are back");
  if (state.book.recalled_since(job.id) == kNever) job.overdue_reported = false;
  if ((gave_up || was_away != is_away(state, job)) && !state.resuming) settle_leases(state, now_s);
}

static void take_in(ClusterState& state, Job& job, const Join& event, double now_s) {
  if (job.connection != 0) {
    state.connections.erase(job.connection);
    state.actions.emplace_back(Refuse{job.connection, "another supervisor of this run has come"});
  }
  ET_CHECK(!state.connections.contains(event.connection), "a connection is that of one run");
  job.connection = event.connection;
  state.connections[event.connection] = job.id;
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
  write_record(state, record::HasJoined{job.id, job.directory, job.pid, job.spec.suspends, event.lease, event.holds,
                                        job.process_mark});
  if (says_length) write_record(state, record::Learned{.job = job.id, .samples_total = job.spec.samples_total});
  state.actions.emplace_back(Welcome{event.connection, job.id});
  hear_run(state, job, event.lease, event.holds, false, now_s);
  if (ending) {
    state.actions.emplace_back(SendEnd{job.connection, job.why});
    return;
  }
  send_lease(state, job);
  decide_soon(state, now_s, id_text(job.id) + " joins");
}

// What is refused leaves nothing behind: a job is made only of a run that is let in.
void handle(ClusterState& state, const Join& event, double now_s) {
  std::string problem;
  Job* job = known_run(state, event, problem);
  if (problem.empty()) problem = refusal(state, event, job);
  if (!problem.empty()) {
    state.actions.emplace_back(Refuse{event.connection, problem});
    return;
  }
  if (job == nullptr) job = &admit(state, event.owner, event.limits, event.spec, event.unix_s, now_s);
  take_in(state, *job, event, now_s);
}

// Workers train on all slots that it is meant to have.
static void take_start(ClusterState& state, Job& job, const Report& report, record::Learned& learned, double now_s) {
  const auto& lease = state.book.lease(job.id);
  const bool all = report.phase == "training" && report.lease == lease.version && report.workers >= job.share &&
                   report.workers == lease.slots.size();
  const double took_s = all ? job.starts.train(now_s) : 0;
  if (took_s <= 0) return;
  job.measured_start_s = learned.start_s = took_s;
  learned.workers = report.workers;
}

static void take_length(ClusterState& state, Job& job, const Report& report, record::Learned& learned, double now_s) {
  if (report.samples_total && report.samples_total != job.spec.samples_total) {
    job.spec.samples_total = learned.samples_total = report.samples_total;
  }
  const auto before = length_of(state, job);
  const std::uint64_t expected_before = job.expected_samples;
  job.expected_samples = report.expected_samples;
  job.expected_error = report.expected_error;
  if (!is_other_length(before, length_of(state, job))) return;
  if (job.expected_samples != expected_before) {
    learned.expected_samples = job.expected_samples;
    learned.expected_error = job.expected_error;
  }
  decide_soon(state, now_s, "the length of " + id_text(job.id) + " is estimated anew");
}

// A run that was taken over says it again only when its policy has looked anew.
static void take_goodput(ClusterState& state, Job& job, const Report& report, double now_s) {
  if (report.goodput.empty()) return;
  const bool other = is_other_goodput(job.goodput, report.goodput);
  job.goodput = report.goodput;
  if (state.spec->adapts_batch && other) decide_soon(state, now_s, id_text(job.id) + " says its goodput anew");
}

static void take_figures(ClusterState& state, Job& job, const Report& report, double now_s) {
  const auto wants = job.wants;
  job.reported = true;
  const bool starts = job.run_phase != "training" && report.phase == "training" && job.step == 0;
  if (starts && job.first_start_s != kNever) job.start_s = std::max(0.0, now_s - std::max(job.placed_s, job.lost_s));
  job.run_phase = report.phase;
  job.workers = report.workers;
  record::Learned learned{.job = job.id};
  take_start(state, job, report, learned, now_s);
  job.step = report.step;
  if (report.samples > job.samples && job.failures > 0) job.failures = 0;
  if (report.samples > 0) job.samples = report.samples;  // one that is taken up does not know it before its first step
  job.memory_bytes = report.memory_bytes;
  job.wants = report.wants;
  const bool finds_lost = take_lost(state, job, report.lost_hosts, now_s);
  take_length(state, job, report, learned, now_s);
  take_goodput(state, job, report, now_s);
  const bool measured = take_rates(state, job, report, learned);
  if (!learned.empty()) write_record(state, std::move(learned));
  if (wants != job.wants) decide_soon(state, now_s, id_text(job.id) + " wants another size");
  if (finds_lost) decide_soon(state, now_s, id_text(job.id) + " has lost a host");
  if (measured) decide_soon(state, now_s, id_text(job.id) + " was measured");
  if (falls_behind(state, job, now_s)) decide_soon(state, now_s, id_text(job.id) + " falls behind its deadline");
}

void handle(ClusterState& state, const Report& event, double now_s) {
  Job* const job = job_of(state, event.connection);
  if (job == nullptr) return;
  const std::string problem = state.book.check(job->id, {event.lease, event.holds}, Claims::kOwn);
  if (!problem.empty()) {
    state.actions.emplace_back(Tell{"job " + id_text(job->id) + " says what cannot be: " + problem, true});
    state.actions.emplace_back(Refuse{event.connection, problem});
    return lose_run(state, *job, now_s);
  }
  take_figures(state, *job, event, now_s);
  hear_run(state, *job, event.lease, event.holds, event.stands, now_s);
}

// --- Ends and losses

static std::vector<RateSeen> rates_of(const Job& job) {
  std::vector<RateSeen> rates;
  for (const auto& [workers, measured] : job.rates) rates.push_back({workers, measured.samples_per_s, measured.views});
  return rates;
}

// The last steps of a run are in no report.
static void count_last_steps(const ClusterState& state, Job& job) {
  const auto left = left_s(state, job);
  if (job.spec.samples_total && left && *left <= kUnreported_s) job.samples = *job.spec.samples_total;
}

static void finish_job(ClusterState& state, Job& job, int status, const std::string& why, double now_s) {
  ET_CHECK(job.live(), "a job ends once");
  account_for(state, job, now_s);
  if (status == 0) count_last_steps(state, job);
  state.connections.erase(job.connection);
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
  state.gone.push_back({job.seen_as, job.seen_priority, job.spec.start, job.slot_s, static_cast<double>(job.samples)});
  if (status == 0 && job.samples > 0) {
    const auto length = static_cast<double>(job.samples);
    state.lengths.insert(std::upper_bound(state.lengths.begin(), state.lengths.end(), length), length);
  }
  state.book.forget(job.id);
  write_record(state, record::HasEnded{job.id, status, job.why, job.samples, job.slot_s, rates_of(job)});
  job.rates_by_hosts.clear();
  while (job.rates.size() > kMostRatesOfEnded) job.rates.erase(std::prev(job.rates.end()));
  if (!state.resuming) settle_leases(state, now_s);
  decide_soon(state, now_s, id_text(job.id) + " ends");
  forget_old(state);
}

// Its run has ended, and may be started again.
static void leave_run(ClusterState& state, Job& job, int status, double now_s) {
  if (status == kUnavailableStatus && job.samples == 0) job.resume = false;  // it has saved nothing
  const std::string why = why_it_left(status);
  const bool progress = job.samples > job.samples_at_start;
  // While a host is lost, its waiting time sets the pace: the job is in the queue as long as that lasts.
  const bool host_lost = status == kUnavailableStatus && !job.lost_hosts.empty();
  if (!host_lost) job.failures = progress ? 0 : job.failures + 1;
  if (job.failures >= state.settings.max_failures) {
    return finish_job(state, job, status, why + ", again and again without progress", now_s);
  }
  const bool waits = !progress && !host_lost;
  if (waits) job.not_before_s = now_s + delay_s(job.failures);
  job_left(state, job, status, why, now_s);
}

void handle(ClusterState& state, const RunEnded& event, double now_s) {
  Job* const job = job_of(state, event.connection);
  if (job == nullptr) return;
  const bool goes_on = may_be_started_again(*job, event.status) && job->own() && job->phase != Phase::kEnding;
  if (goes_on) {
    leave_run(state, *job, event.status, now_s);
  } else {
    finish_job(state, *job, event.status, event.status == 0 ? "done" : "its run ended", now_s);
  }
}

void handle(ClusterState& state, const Disconnected& event, double now_s) {
  Job* const job = job_of(state, event.connection);
  if (job != nullptr) lose_run(state, *job, now_s);
}

void lose_run(ClusterState& state, Job& job, double now_s) {
  ET_CHECK(job.connection == 0 || state.connections.contains(job.connection), "a run that is lost was there");
  state.connections.erase(job.connection);
  job.connection = 0;
  job.lost_s = now_s;
  job.probed_s = now_s;
  if (job.phase != Phase::kEnding) {
    job.phase = Phase::kLost;
    job.resume = true;
    write_record(state, record::Lost{job.id});
  }
  state.actions.emplace_back(Probe{job.id});
  decide_soon(state, now_s, id_text(job.id) + " is lost");
}

// A run that was started and has ended before it joined.
static void job_failed(ClusterState& state, Job& job, int status, const std::string& why, double now_s) {
  const bool again = job.resume || status == kPreempted || status == kUnavailableStatus || status > 128;
  ++job.failures;
  if (!again || job.failures >= state.settings.max_failures) {
    return finish_job(state, job, status, why.empty() ? "its run ended before it joined" : why, now_s);
  }
  const bool may_hold = !state.book.held(job.id).empty() || job.resume;
  job.not_before_s = now_s + delay_s(job.failures);
  if (!may_hold) return job_left(state, job, status, "its run did not start: " + why, now_s);
  job.phase = Phase::kQueued;
  job.lost_s = now_s;
  take_lost(state, job, {}, now_s);  // who found them lost is not there any more
  write_record(state, record::Left{job.id, status, "is taken up again: " + why, job.resume});
}

void handle(ClusterState& state, const ProcessEnded& event, double now_s) {
  const auto found = state.jobs.find(event.job);
  if (found == state.jobs.end() || found->second.attempt != event.attempt) return;
  Job& job = found->second;
  job.process = false;
  if (!job.live() || job.connection != 0) return;
  if (job.phase == Phase::kStarting) {
    job_failed(state, job, event.status, event.text, now_s);
  } else if (pinned(job)) {
    job.lost_s = now_s;  // its agents were not orphans before
    job.probed_s = now_s;
    state.actions.emplace_back(Probe{job.id});
  }
}

// It has no process any more, and waits to be started again.
void job_left(ClusterState& state, Job& job, int status, const std::string& why, double now_s) {
  account_for(state, job, now_s);
  state.connections.erase(job.connection);
  job.connection = 0;
  job.phase = Phase::kQueued;
  take_lost(state, job, {}, now_s);  // who found them lost is not there any more
  job.why = why;
  job.workers = 0;
  job.run_phase.clear();
  const Slots slots = state.book.vacate(job.id);
  if (job.move || job.trial) end_move(state, job, record::MoveOutcome::kSuperseded, "it has no worker any more", now_s);
  job.starts.change(now_s, job.share, 0);
  job.share = 0;
  job.beside = 0;
  job.packed = {};
  write_record(state, record::Left{job.id, status, why, job.resume});
  if (!slots.empty()) write_record(state, record::Returned{job.id, slots});
  if (!state.resuming) settle_leases(state, now_s);
  decide_soon(state, now_s, id_text(job.id) + " leaves");
}

// Tells a job to end: at once where it has no process.
void end_job(ClusterState& state, Job& job, const std::string& why, double now_s) {
  const bool nothing_runs = job.phase == Phase::kQueued && !job.resume;
  job.why = why;
  if (nothing_runs || (job.phase == Phase::kQueued && state.book.owned(job.id).empty())) {
    return finish_job(state, job, 130, why, now_s);
  }
  const Phase before = job.phase;
  job.phase = Phase::kEnding;
  job.ending_s = now_s;
  job.lost_s = now_s;
  job.signals = 0;
  if (before == Phase::kJoined) {
    state.actions.emplace_back(SendEnd{job.connection, why});
  } else if (job.process) {
    state.actions.emplace_back(SignalRun{job.id, job.attempt, false});
  } else {
    state.actions.emplace_back(Probe{job.id});
  }
  decide_soon(state, now_s, id_text(job.id) + " is to end");
}

// --- What time brings

// Slots that are not given back in time are shown and not granted; an own run is ended.
static void recall_in_time(ClusterState& state, Job& job, double now_s) {
  if (job.overdue_reported || state.book.recalled_since(job.id) + state.settings.recall_timeout_s > now_s) return;
  job.overdue_reported = true;
  const Slots slots = state.book.overdue(job.id, now_s - state.settings.recall_timeout_s);
  write_record(state, record::Overdue{job.id, slots});
  state.actions.emplace_back(Tell{"job " + id_text(job.id) + " has not given back " + std::to_string(slots.size()) +
                                      " slots within cluster.recall_timeout_ms",
                                  true});
  decide_soon(state, now_s, "slots are overdue");
  if (job.own()) end_job(state, job, "it did not give back its slots in time", now_s);
}

// TERM, then KILL to the supervisor of an own run that does not end. Its agents end its workers.
static void press_run(ClusterState& state, Job& job, double now_s) {
  const double steps = (now_s - job.ending_s) / std::max(0.001, state.settings.recall_timeout_s);
  if (!job.own() || steps < job.signals + 1 || job.signals >= 2) return;
  ++job.signals;
  state.actions.emplace_back(SignalRun{job.id, job.attempt, job.signals == 2});
}

void look_after(ClusterState& state, Job& job, double now_s) {
  if (job.phase == Phase::kJoined) {
    if (job.move && !job.move->back && now_s >= job.move->begun_s + state.settings.join_timeout_s) {
      job.move->back = true;
      decide_soon(state, now_s, id_text(job.id) + " does not get to its new slots");
    }
    return recall_in_time(state, job, now_s);
  }
  if (job.phase == Phase::kStarting && now_s - job.lost_s >= state.settings.join_timeout_s) {
    end_job(state, job,
            "it was started and did not join within " + protocol::duration_text(state.settings.join_timeout_s), now_s);
  }
  if (!pinned(job)) return;
  if (job.connection == 0 && now_s - job.probed_s >= state.settings.probe_interval_s) {
    job.probed_s = now_s;
    state.actions.emplace_back(Probe{job.id});
  }
  if (job.phase == Phase::kEnding) press_run(state, job, now_s);
}

void handle(ClusterState& state, const Probed& event, double now_s) {
  const auto found = state.jobs.find(event.job);
  if (found == state.jobs.end() || !pinned(found->second) || found->second.connection != 0) return;
  Job& job = found->second;
  using State = Probed::State;
  if (event.state == State::kEnded) {
    const bool goes_on = may_be_started_again(job, event.status) && job.own() && job.phase == Phase::kLost;
    return goes_on ? leave_run(state, job, event.status, now_s)
                   : finish_job(state, job, event.status, event.status == 0 ? "done" : "its run ended", now_s);
  }
  if (event.state == State::kAlive) job.lost_s = now_s;
  if (event.state == State::kAlive || job.process) return;
  const bool waited = !state.resuming || now_s >= state.resume_until_s;
  if (job.phase == Phase::kLost && job.own()) {
    if (event.state == State::kNoRun && waited) {
      job.resume = false;
      job.samples = 0;
      return job_left(state, job, 0, "its run had not begun", now_s);
    }
    if (event.state == State::kDead && job.failures < state.settings.max_failures) {
      job.failures += job.samples > job.samples_at_start ? 0 : 1;
      return start_job(state, job, now_s);
    }
  }
  const bool holds_nothing = event.state == State::kNoRun && waited;
  if (holds_nothing || now_s - job.lost_s >= state.settings.orphan_grace_s) {
    finish_job(state, job, kUnavailableStatus, "its supervisor was lost and did not come back", now_s);
  }
}

}  // namespace elastictrain::cluster_core
