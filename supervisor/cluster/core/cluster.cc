#include "supervisor/cluster/core/cluster.h"

#include <algorithm>
#include <utility>

namespace elastictrain::jobs {

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

Cluster::Cluster(Settings settings)
    : settings_(std::move(settings)),
      spec_(sharing::find_sharing_policy(settings_.outside ? kStandIn : settings_.policy)),
      policy_(spec_->make({settings_.slice_s, settings_.packing})),
      rng_(settings_.seed) {}

std::uint32_t Cluster::slots() const {
  std::uint32_t sum = 0;
  for (const HostLine& host : hosts_) sum += host.slots;
  return sum;
}

Actions Cluster::begin(double now_s) {
  actions_.clear();
  write(record::Began{settings_.version, settings_.policy, rules_of(settings_)});
  for (auto& [id, job] : jobs_) {
    job.settled_s = now_s;
    job.process = false;
    if (!job.live()) continue;
    job.lost_s = now_s;
    if (job.phase == Phase::kEnding) {
      job.ending_s = now_s;
    } else if (job.phase != Phase::kQueued || !job.own()) {  // nobody here can start the run of another user
      lose(job, now_s);
      resuming_ = true;
    }
  }
  if (resuming_) resume_until_s_ = now_s + settings_.resume_timeout_s;
  decide_soon(now_s, "start");
  jobs_due_s_.reset();
  return std::exchange(actions_, {});
}

Actions Cluster::step(const Event& event, double now_s) {
  actions_.clear();
  std::visit([&](const auto& one) { handle(one, now_s); }, event);
  check_resumed(now_s);
  if (!resuming_ && !asked_ && now_s >= std::min(decide_s_, again_s_)) decide(now_s);
  // Nearly all events are reports in which nothing is new.
  if (!std::holds_alternative<Report>(event) || !actions_.empty()) jobs_due_s_.reset();
  if (!jobs_due_s_ || now_s >= *jobs_due_s_) start_due(now_s);
  return std::exchange(actions_, {});
}

void Cluster::check_resumed(double now_s) {
  if (!resuming_) return;
  const bool all_back = std::none_of(jobs_.begin(), jobs_.end(), [](const auto& entry) {
    const Job& job = entry.second;
    return job.phase == Phase::kLost || job.phase == Phase::kStarting || (job.phase == Phase::kJoined && !job.reported);
  });
  if (!all_back && now_s < resume_until_s_) return;
  resuming_ = false;
  decide_s_ = std::min(decide_s_, now_s);
}

void Cluster::decide_soon(double now_s, const std::string& trigger) {
  if (decide_s_ == kNever) {
    decide_s_ = now_s + settings_.decide_after_s;
    trigger_ = trigger;
  } else if (trigger_.find(trigger) == std::string::npos && trigger_.size() < 100) {
    trigger_ += (trigger_.empty() ? "" : ", ") + trigger;
  }
}

// When a job has to be looked at at the latest, whatever else happens until then.
double Cluster::due_s(const Job& job, double now_s) const {
  switch (job.phase) {
    case Phase::kQueued:
      if (resuming_) return kNever;
      if (job.share > 0) return job.own() && !job.process ? job.not_before_s : kNever;
      return job.not_before_s > now_s ? job.not_before_s : kNever;
    case Phase::kStarting:
      return job.lost_s + settings_.join_timeout_s;
    case Phase::kLost:
      return job.probed_s + settings_.probe_interval_s;
    case Phase::kEnding: {
      const double probe_s = job.connection == 0 ? job.probed_s + settings_.probe_interval_s : kNever;
      const bool pressed = !job.own() || job.signals >= 2;
      return pressed ? probe_s : std::min(probe_s, job.ending_s + settings_.recall_timeout_s * (job.signals + 1));
    }
    case Phase::kJoined:
      return std::min(job.overdue_reported ? kNever : book_.recalled_since(job.id) + settings_.recall_timeout_s,
                      job.move && !job.move->back ? job.move->begun_s + settings_.join_timeout_s : kNever);
    case Phase::kEnded:
      break;
  }
  return kNever;
}

double Cluster::wake_s(double now_s) {
  if (!jobs_due_s_) {
    jobs_due_s_ = kNever;
    for (const auto& [id, job] : jobs_) jobs_due_s_ = std::min(*jobs_due_s_, due_s(job, now_s));
  }
  if (asked_) return *jobs_due_s_;
  return std::min(*jobs_due_s_, resuming_ ? resume_until_s_ : std::min(decide_s_, again_s_));
}

void Cluster::handle(const Tick&, double now_s) {
  std::vector<JobId> ids;
  for (const auto& [id, job] : jobs_) {
    if (job.live()) ids.push_back(id);
  }
  for (const JobId id : ids) look_after(jobs_.at(id), now_s);
  for (const JobId id : ids) {
    const Job& job = jobs_.at(id);
    const bool again =
        job.phase == Phase::kQueued && job.share == 0 && job.not_before_s > 0 && job.not_before_s <= now_s;
    if (!again) continue;
    jobs_.at(id).not_before_s = 0;
    decide_soon(now_s, "retry");
  }
}

// Ids of hosts stay; a host that comes back is the same one.
void Cluster::handle(const HostsChanged& event, double now_s) {
  std::vector<HostLine> next = hosts_;
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
  if (next == hosts_) return;
  for (std::uint32_t host = 0; host < next.size(); ++host) {
    if (host < hosts_.size() && next[host] == hosts_[host]) continue;
    for (auto& [id, job] : jobs_) job.losses.erase(host);
  }
  hosts_ = std::move(next);
  for (std::uint32_t host = 0; host < hosts_.size(); ++host) book_.set_host(host, hosts_[host].slots);
  write(record::Hosts{hosts_});
  decide_soon(now_s, "hosts");
}

void Cluster::account(Job& job, double now_s) {
  const double passed_s = std::max(0.0, now_s - job.settled_s);
  const auto leased = static_cast<double>(book_.in_use(job.id));
  job.settled_s = now_s;
  if (leased == 0) return;
  job.running_s += passed_s;
  job.slot_s += passed_s * leased;
}

void Cluster::settle(double now_s) {
  for (auto& [id, job] : jobs_) {
    if (job.live()) account(job, now_s);
  }
  for (const Holder holder : book_.settle(now_s)) {
    const auto found = jobs_.find(holder);
    if (found == jobs_.end()) continue;
    Job& job = found->second;
    const auto& lease = book_.lease(holder);
    write(record::Leased{job.id, lease.version, lease.slots, job.why, lease.hold, lease.beside, lease.moves});
    job.placed_s = now_s;
    if (lease.slots.size() > job.leased) job.starts.begin(now_s);
    job.leased = static_cast<std::uint32_t>(lease.slots.size());
    if (lease.beside != job.packed.beside) job.packed = {lease.beside, lease.version, {}};
    if (job.below_share && !lease.slots.empty()) {
      job.below_share = false;
      decide_soon(now_s, id_text(job.id) + " goes on");
    }
    if (job.first_start_s == kNever && !lease.slots.empty()) job.first_start_s = now_s;
    send_lease(job);
  }
}

void Cluster::send_lease(const Job& job) {
  const auto& lease = book_.lease(job.id);
  if (job.phase == Phase::kJoined && lease.version > 0) {
    actions_.emplace_back(
        SendLease{job.connection, lease.version, lease.slots, job.why, lease.hold, lease.beside, lease.moves});
  }
}

std::vector<JobId> Cluster::waiting() const {
  std::vector<const Job*> jobs;
  for (const auto& [id, job] : jobs_) {
    if (job.may_run() && job.share == 0) jobs.push_back(&job);
  }
  std::stable_sort(jobs.begin(), jobs.end(),
                   [](const Job* a, const Job* b) { return a->spec.priority > b->spec.priority; });
  std::vector<JobId> ids;
  for (const Job* job : jobs) ids.push_back(job->id);
  return ids;
}

void Cluster::send_places() {
  const std::vector<JobId> ids = waiting();
  const auto of = static_cast<std::uint32_t>(ids.size());
  for (std::uint32_t place = 1; place <= of; ++place) {
    Job& job = jobs_.at(ids[place - 1]);
    if (job.phase != Phase::kJoined || (job.place_reported == place && job.places_reported == of)) continue;
    job.place_reported = place;
    job.places_reported = of;
    actions_.emplace_back(SendPlace{job.connection, place, of, job.why});
  }
}

void Cluster::start_due(double now_s) {
  if (resuming_) return;
  for (auto& [id, job] : jobs_) {
    const bool due = job.phase == Phase::kQueued && job.share > 0 && job.own() && !job.process;
    if (due && now_s >= job.not_before_s) start(job, now_s);
  }
  jobs_due_s_.reset();
}

void Cluster::start(Job& job, double now_s) {
  job.phase = Phase::kStarting;
  job.process = true;
  ++job.attempt;
  job.samples_at_start = job.samples;
  job.lost_s = now_s;
  write(record::Started{job.id, job.resume});
  actions_.emplace_back(StartRun{job.id, job.attempt, job.resume});
}

std::optional<double> Cluster::length_of(const Job& job) const {
  if (job.spec.samples_total) return static_cast<double>(*job.spec.samples_total);
  if (settings_.estimated_lengths && job.expected_samples > 0) return static_cast<double>(job.expected_samples);
  return std::nullopt;
}

std::optional<double> Cluster::left_s(const Job& job) const {
  const auto length = length_of(job);
  if (!length || job.workers == 0) return std::nullopt;
  const auto alone = job.rates.find(job.workers);
  const double rate = job.packed.rate.views > 0  ? job.packed.rate.samples_per_s
                      : alone != job.rates.end() ? alone->second.samples_per_s
                                                 : 0;
  if (rate <= 0) return std::nullopt;
  const double left = *length - static_cast<double>(job.samples);
  return std::max(0.0, left) / rate;
}

void Cluster::forget_old() {
  std::size_t ended = 0;
  for (const auto& [id, job] : jobs_) ended += job.live() ? 0 : 1;
  for (auto job = jobs_.begin(); job != jobs_.end() && ended > settings_.kept_ended;) {
    if (job->second.live()) {
      ++job;
    } else {
      job = jobs_.erase(job);
      --ended;
    }
  }
}

}  // namespace elastictrain::jobs
