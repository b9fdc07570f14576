#include "supervisor/cluster/core/cluster.h"

#include <algorithm>
#include <utility>

#include "supervisor/cluster/core/deciding.h"
#include "supervisor/cluster/core/state.h"
#include "supervisor/protocol/check.h"

namespace elastictrain::cluster_core {

namespace sharing = heuristics::sharing;

std::string id_text(JobId id) {
  return "j" + std::to_string(id);
}

const char* name_of(Phase phase) {
  switch (phase) {
    case Phase::kQueued:
      return "queued";
    case Phase::kStarting:
      return "starting";
    case Phase::kJoined:
      return "joined";
    case Phase::kLost:
      return "lost";
    case Phase::kEnding:
      return "ending";
    case Phase::kEnded:
      return "ended";
  }
  return "";
}

record::Rules rules_of(const Settings& settings) {
  return {settings.slice_s, settings.decide_after_s,    settings.recall_timeout_s, settings.suspended_per_slot,
          settings.packing, settings.estimated_lengths, settings.migration,        settings.outside,
          settings.seed};
}

ClusterState::ClusterState(Settings of_cluster)
    : settings(std::move(of_cluster)),
      spec(sharing::find_sharing_policy(settings.outside ? kStandIn : settings.policy)),
      policy(spec->make({settings.slice_s, settings.packing})),
      rng(settings.seed) {}

std::uint32_t cluster_slots(const ClusterState& state) {
  std::uint32_t sum = 0;
  for (const HostLine& host : state.hosts) sum += host.slots;
  return sum;
}

static Actions begin_cluster(ClusterState& state, double now_s) {
  ET_CHECK(state.connections.empty(), "no run is there before a cluster begins");
  state.actions.clear();
  write_record(state, record::Began{state.settings.version, state.settings.policy, rules_of(state.settings)});
  for (auto& [id, job] : state.jobs) {
    job.settled_s = now_s;
    job.process = false;
    if (!job.live()) continue;
    job.lost_s = now_s;
    if (job.phase == Phase::kEnding) {
      job.ending_s = now_s;
    } else if (job.phase != Phase::kQueued || !job.own()) {  // nobody here can start the run of another user
      lose_run(state, job, now_s);
      state.resuming = true;
    }
  }
  if (state.resuming) state.resume_until_s = now_s + state.settings.resume_timeout_s;
  decide_soon(state, now_s, "start");
  state.jobs_due_s.reset();
  return std::exchange(state.actions, {});
}

static void check_resumed(ClusterState& state, double now_s) {
  if (!state.resuming) return;
  const bool all_back = std::none_of(state.jobs.begin(), state.jobs.end(), [](const auto& entry) {
    const Job& job = entry.second;
    return job.phase == Phase::kLost || job.phase == Phase::kStarting || (job.phase == Phase::kJoined && !job.reported);
  });
  if (!all_back && now_s < state.resume_until_s) return;
  state.resuming = false;
  state.decide_s = std::min(state.decide_s, now_s);
}

static void start_due(ClusterState& state, double now_s) {
  if (state.resuming) return;
  for (auto& [id, job] : state.jobs) {
    const bool due = job.phase == Phase::kQueued && job.share > 0 && job.own() && !job.process;
    if (due && now_s >= job.not_before_s) start_job(state, job, now_s);
  }
  state.jobs_due_s.reset();
}

static Actions take_step(ClusterState& state, const Event& event, double now_s) {
  state.actions.clear();
  std::visit([&](const auto& one) { handle(state, one, now_s); }, event);
  check_resumed(state, now_s);
  if (!state.resuming && !state.asked && now_s >= std::min(state.decide_s, state.again_s)) decide(state, now_s);
  // Nearly all events are reports in which nothing is new.
  if (!std::holds_alternative<Report>(event) || !state.actions.empty()) state.jobs_due_s.reset();
  if (!state.jobs_due_s || now_s >= *state.jobs_due_s) start_due(state, now_s);
  return std::exchange(state.actions, {});
}

void decide_soon(ClusterState& state, double now_s, const std::string& trigger) {
  if (state.decide_s == kNever) {
    state.decide_s = now_s + state.settings.decide_after_s;
    state.trigger = trigger;
  } else if (state.trigger.find(trigger) == std::string::npos && state.trigger.size() < 100) {
    state.trigger += (state.trigger.empty() ? "" : ", ") + trigger;
  }
}

// When a job has to be looked at at the latest, whatever else happens until then.
static double due_s(const ClusterState& state, const Job& job, double now_s) {
  switch (job.phase) {
    case Phase::kQueued:
      if (state.resuming) return kNever;
      if (job.share > 0) return job.own() && !job.process ? job.not_before_s : kNever;
      return job.not_before_s > now_s ? job.not_before_s : kNever;
    case Phase::kStarting:
      return job.lost_s + state.settings.join_timeout_s;
    case Phase::kLost:
      return job.probed_s + state.settings.probe_interval_s;
    case Phase::kEnding: {
      const double probe_s = job.connection == 0 ? job.probed_s + state.settings.probe_interval_s : kNever;
      const bool pressed = !job.own() || job.signals >= 2;
      return pressed ? probe_s : std::min(probe_s, job.ending_s + state.settings.recall_timeout_s * (job.signals + 1));
    }
    case Phase::kJoined:
      return std::min(
          job.overdue_reported ? kNever : state.book.recalled_since(job.id) + state.settings.recall_timeout_s,
          job.move && !job.move->back ? job.move->begun_s + state.settings.join_timeout_s : kNever);
    case Phase::kEnded:
      break;
  }
  return kNever;
}

static double wake_time_s(ClusterState& state, double now_s) {
  if (!state.jobs_due_s) {
    state.jobs_due_s = kNever;
    for (const auto& [id, job] : state.jobs) state.jobs_due_s = std::min(*state.jobs_due_s, due_s(state, job, now_s));
  }
  if (state.asked) return *state.jobs_due_s;
  return std::min(*state.jobs_due_s, state.resuming ? state.resume_until_s : std::min(state.decide_s, state.again_s));
}

void handle(ClusterState& state, const Tick&, double now_s) {
  std::vector<JobId> ids;
  for (const auto& [id, job] : state.jobs) {
    if (job.live()) ids.push_back(id);
  }
  for (const JobId id : ids) look_after(state, state.jobs.at(id), now_s);
  for (const JobId id : ids) {
    const Job& job = state.jobs.at(id);
    const bool again =
        job.phase == Phase::kQueued && job.share == 0 && job.not_before_s > 0 && job.not_before_s <= now_s;
    if (!again) continue;
    state.jobs.at(id).not_before_s = 0;
    decide_soon(state, now_s, "retry");
  }
}

// Ids of hosts stay; a host that comes back is the same one.
void handle(ClusterState& state, const HostsChanged& event, double now_s) {
  std::vector<HostLine> next = state.hosts;
  for (HostLine& host : next) host.slots = 0;
  for (const HostLine& given : event.hosts) {
    const auto found =
        std::find_if(next.begin(), next.end(), [&](const HostLine& host) { return host.name == given.name; });
    if (found == next.end()) {
      next.push_back(given);
    } else {
      *found = given;
    }
  }
  if (next == state.hosts) return;
  for (std::uint32_t host = 0; host < next.size(); ++host) {
    if (host < state.hosts.size() && next[host] == state.hosts[host]) continue;
    for (auto& [id, job] : state.jobs) job.losses.erase(host);
  }
  state.hosts = std::move(next);
  for (std::uint32_t host = 0; host < state.hosts.size(); ++host) state.book.set_host(host, state.hosts[host].slots);
  write_record(state, record::Hosts{state.hosts});
  decide_soon(state, now_s, "hosts");
}

void account_for(ClusterState& state, Job& job, double now_s) {
  const double passed_s = std::max(0.0, now_s - job.settled_s);
  const auto leased = static_cast<double>(state.book.in_use(job.id));
  job.settled_s = now_s;
  if (leased == 0) return;
  job.running_s += passed_s;
  job.slot_s += passed_s * leased;
}

void settle_leases(ClusterState& state, double now_s) {
  for (auto& [id, job] : state.jobs) {
    if (job.live()) account_for(state, job, now_s);
  }
  for (const Holder holder : state.book.settle(now_s)) {
    const auto found = state.jobs.find(holder);
    if (found == state.jobs.end()) continue;
    Job& job = found->second;
    const auto& lease = state.book.lease(holder);
    ET_CHECK(lease.version > job.leased_version, "versions of a lease only rise");
    job.leased_version = lease.version;
    write_record(state,
                 record::Leased{job.id, lease.version, lease.slots, job.why, lease.hold, lease.beside, lease.moves});
    job.placed_s = now_s;
    if (lease.slots.size() > job.leased) job.starts.begin(now_s);
    job.leased = static_cast<std::uint32_t>(lease.slots.size());
    if (lease.beside != job.packed.beside) job.packed = {lease.beside, lease.version, {}};
    if (job.below_share && !lease.slots.empty()) {
      job.below_share = false;
      decide_soon(state, now_s, id_text(job.id) + " goes on");
    }
    if (job.first_start_s == kNever && !lease.slots.empty()) job.first_start_s = now_s;
    send_lease(state, job);
  }
}

void send_lease(ClusterState& state, const Job& job) {
  const auto& lease = state.book.lease(job.id);
  if (job.phase == Phase::kJoined && lease.version > 0) {
    state.actions.emplace_back(
        SendLease{job.connection, lease.version, lease.slots, job.why, lease.hold, lease.beside, lease.moves});
  }
}

static std::vector<JobId> waiting_jobs(const ClusterState& state) {
  std::vector<const Job*> jobs;
  for (const auto& [id, job] : state.jobs) {
    if (job.may_run() && job.share == 0) jobs.push_back(&job);
  }
  std::stable_sort(jobs.begin(), jobs.end(),
                   [](const Job* a, const Job* b) { return a->spec.priority > b->spec.priority; });
  std::vector<JobId> ids;
  for (const Job* job : jobs) ids.push_back(job->id);
  return ids;
}

void send_places(ClusterState& state) {
  const std::vector<JobId> ids = waiting_jobs(state);
  const auto of = static_cast<std::uint32_t>(ids.size());
  for (std::uint32_t place = 1; place <= of; ++place) {
    Job& job = state.jobs.at(ids[place - 1]);
    if (job.phase != Phase::kJoined || (job.place_reported == place && job.places_reported == of)) continue;
    job.place_reported = place;
    job.places_reported = of;
    state.actions.emplace_back(SendPlace{job.connection, place, of, job.why});
  }
}

void start_job(ClusterState& state, Job& job, double now_s) {
  ET_CHECK(job.own() && !job.process && job.connection == 0, "a run is started that nobody else has started");
  ET_CHECK(job.phase == Phase::kQueued || job.phase == Phase::kLost, "a run is started that waits or was lost");
  job.phase = Phase::kStarting;
  job.process = true;
  ++job.attempt;
  job.samples_at_start = job.samples;
  job.lost_s = now_s;
  write_record(state, record::Started{job.id, job.resume});
  state.actions.emplace_back(StartRun{job.id, job.attempt, job.resume});
}

std::optional<double> length_of(const ClusterState& state, const Job& job) {
  if (job.spec.samples_total) return static_cast<double>(*job.spec.samples_total);
  if (state.settings.estimated_lengths && job.expected_samples > 0) return static_cast<double>(job.expected_samples);
  return std::nullopt;
}

std::optional<double> left_s(const ClusterState& state, const Job& job) {
  const auto length = length_of(state, job);
  if (!length || job.workers == 0) return std::nullopt;
  const auto alone = job.rates.find(job.workers);
  const double rate = job.packed.rate.views > 0  ? job.packed.rate.samples_per_s
                      : alone != job.rates.end() ? alone->second.samples_per_s
                                                 : 0;
  if (rate <= 0) return std::nullopt;
  const double left = *length - static_cast<double>(job.samples);
  return std::max(0.0, left) / rate;
}

void forget_old(ClusterState& state) {
  std::size_t ended = 0;
  for (const auto& [id, job] : state.jobs) ended += job.live() ? 0 : 1;
  for (auto job = state.jobs.begin(); job != state.jobs.end() && ended > state.settings.kept_ended;) {
    if (job->second.live()) {
      ++job;
    } else {
      job = state.jobs.erase(job);
      --ended;
    }
  }
}

Cluster::Cluster(Settings settings) : state_(std::make_unique<ClusterState>(std::move(settings))) {}
Cluster::~Cluster() = default;

void Cluster::recall(const Record& record, double now_s) {
  recall_record(*state_, record, now_s);
}
bool Cluster::needs(const Record& record) const {
  return cluster_core::needs(*state_, record);
}
Actions Cluster::begin(double now_s) {
  return begin_cluster(*state_, now_s);
}
Actions Cluster::step(const Event& event, double now_s) {
  return take_step(*state_, event, now_s);
}
double Cluster::wake_s(double now_s) {
  return wake_time_s(*state_, now_s);
}
const Settings& Cluster::settings() const {
  return state_->settings;
}
const std::map<JobId, Job>& Cluster::jobs() const {
  return state_->jobs;
}
const heuristics::leases::LeaseBook& Cluster::book() const {
  return state_->book;
}
const std::vector<HostLine>& Cluster::hosts() const {
  return state_->hosts;
}
std::uint32_t Cluster::slots() const {
  return cluster_slots(*state_);
}
SlotDemand Cluster::demand() const {
  return demand_of(*state_);
}
const std::vector<HostLine>& Cluster::helpers() const {
  return state_->helpers;
}
std::uint32_t Cluster::asked_slots() const {
  return state_->asked_slots;
}
double Cluster::asked_s() const {
  return state_->asked_s;
}
bool Cluster::resuming() const {
  return state_->resuming;
}
std::vector<JobId> Cluster::waiting() const {
  return waiting_jobs(*state_);
}
std::optional<double> Cluster::left_s(const Job& job) const {
  return cluster_core::left_s(*state_, job);
}
std::optional<double> Cluster::length_of(const Job& job) const {
  return cluster_core::length_of(*state_, job);
}
std::uint64_t Cluster::decisions() const {
  return state_->decisions;
}
const std::string& Cluster::policy_problem() const {
  return state_->policy_problem;
}
std::string Cluster::refusal(const Owner& owner, const Limits& limits, const JobSpec& spec, Outcome& outcome) const {
  return cluster_core::refusal(*state_, owner, limits, spec, outcome);
}
std::vector<std::string> Cluster::broken_rules() const {
  return cluster_core::broken_rules(*state_);
}

}  // namespace elastictrain::cluster_core
