#include "heuristics/simulate/cluster/simulation.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "heuristics/sharing/grants.h"
#include "heuristics/simulate/cluster/migration.h"
#include "heuristics/simulate/cluster/progress.h"

namespace elastictrain::heuristics::cluster {
namespace {

using sharing::kNever;

// What lies closer together is one instant: ends that are equal on paper differ in the last bits.
constexpr double kInstant_s = 1e-6;
constexpr double kViewEvery_s = 1;  // of the speed of jobs that share slots
constexpr double kPairsDiffer = 0.2;

// What is known of a present job beside its view.
struct Life {
  Progress progress;
  JobResult result;
  double overhead_s = 0;
  double said = 1;     // the length that it says over the true one
  double since_s = 0;  // of the slots that it holds
  double running_before_s = 0;
  double slot_s_before = 0;
  double end_s = kNever;
  double jobs_s_before = 0;                // integral of the number of jobs, at arrival
  std::uint64_t beside = sharing::kNoJob;  // in whose slots it is, or who is in its own
  double beside_since_s = 0;
  double packed_speed = 1;  // there, of that alone
  double ready_s = 0;       // workers on all its slots have started
};

class Simulation {
 public:
  Simulation(const Trace& trace, const sharing::PolicySpec& spec, const Options& options,
             const std::function<void(const Change&)>& watch)
      : trace_(trace),
        spec_(spec),
        options_(options),
        watch_(watch),
        policy_(spec.make(options.settings)),
        state_(policy_->initial_state()),
        rng_(options.seed),
        error_rng_(options.seed) {
    view_.slots = options.slots;
    if (options.hosts.hosts > 0) hosts_.emplace(options.hosts, options.seed);
    if (hosts_ && options.hosts.migration) migration_.emplace(options.cost);
    outcome_.jobs.resize(trace.jobs.size());
  }

  Outcome run() {
    while (outcome_.problem.empty() && (next_arrival_ < trace_.jobs.size() || !lives_.empty())) {
      if (!advance()) break;
      end_jobs();
      pass_hosts();
      admit_jobs();
      decide();
    }
    if (migration_) outcome_.moves = migration_->moves();
    return std::move(outcome_);
  }

 private:
  double next_event_s() const {
    double next_s = again_s_;
    if (next_arrival_ < trace_.jobs.size()) next_s = std::min(next_s, trace_.jobs[next_arrival_].arrival_s);
    for (const Life& life : lives_) next_s = std::min(next_s, life.end_s);
    if (migration_ && next_s < kNever) next_s = std::min(next_s, std::max(view_.now_s, migration_->next_event_s()));
    if (hosts_ && (next_s < kNever || view_.slots < options_.slots)) next_s = std::min(next_s, hosts_->next_event_s());
    return next_s;
  }

  bool advance() {
    const double next_s = next_event_s();
    if (next_s == kNever) {
      outcome_.problem =
          "the policy " + spec_.name + " leaves " + std::to_string(lives_.size()) + " jobs waiting for ever";
      return false;
    }
    jobs_s_ += (next_s - view_.now_s) * static_cast<double>(lives_.size());
    view_.now_s = next_s;
    if (options_.cost.kind == Cost::Kind::kMuri) charge_all();
    return true;
  }

  void charge_all() {
    for (std::size_t place = 0; place < lives_.size(); ++place) {
      Life& life = lives_[place];
      if (view_.jobs[place].held == 0 || life.end_s <= view_.now_s + kInstant_s) continue;
      life.progress.charge(view_.now_s, life.overhead_s);
      life.end_s = life.progress.end_s();
    }
  }

  void end_jobs() {
    view_.ended.clear();
    std::size_t kept = 0;
    for (std::size_t place = 0; place < lives_.size(); ++place) {
      if (lives_[place].end_s <= view_.now_s + kInstant_s) {
        end(place);
        continue;
      }
      if (kept != place) {
        lives_[kept] = std::move(lives_[place]);
        view_.jobs[kept] = view_.jobs[place];
      }
      ++kept;
    }
    lives_.erase(lives_.begin() + static_cast<std::ptrdiff_t>(kept), lives_.end());
    view_.jobs.resize(kept);
  }

  void end(std::size_t place) {
    Life& life = lives_[place];
    const sharing::JobView& job = view_.jobs[place];
    JobResult& result = life.result;
    const TraceJob& given = trace_.jobs[result.job];
    result.completion_s = view_.now_s;
    result.slot_s = life.slot_s_before + (view_.now_s - life.since_s) * job.held;
    result.finish_time_ratio = finish_time_ratio(life, given);
    outcome_.jobs[result.job] = result;
    if (migration_) migration_->overtake(*hosts_, job.id);
    view_.ended.push_back({job.id, job.requested, result.slot_s, given.work, job.curve});
    if (watch_) watch_({view_.now_s, result.job, 0});
  }

  const sharing::Curve& curve_of(const TraceJob& given) const {
    return spec_.adapts_batch && given.adapted ? *given.adapted : *given.curve;
  }

  double finish_time_ratio(const Life& life, const TraceJob& given) const {
    const double took_s = view_.now_s - given.arrival_s;
    if (took_s <= 0) return 1;
    const double mean_jobs = std::max(1.0, (jobs_s_ - life.jobs_s_before) / took_s);
    const double share = view_.slots / mean_jobs;
    const sharing::Curve& curve = curve_of(given);
    return took_s / (given.work / curve.best_at(std::min<double>(share, curve.cap())));
  }

  void pass_hosts() {
    if (!hosts_) return;
    for (const auto& lost : hosts_->pass(view_.now_s)) {
      for (std::size_t place = 0; place < lives_.size(); ++place) {
        if (view_.jobs[place].id == lost.job) change(place, view_.jobs[place].held - lost.slots);
      }
    }
    view_.slots = hosts_->slots();
    if (!migration_) return;
    for (const std::uint64_t job : migration_->pass(*hosts_, view_.now_s)) {
      if (options_.cost.kind != Cost::Kind::kRestart) continue;
      Life& life = lives_[place_of(job)];
      life.progress.set_slots(view_.now_s, 0, options_.cost);
      life.progress.set_slots(view_.now_s, view_.jobs[place_of(job)].held, options_.cost);
    }
  }

  void admit_jobs() {
    const double until_s = view_.now_s + kInstant_s;
    for (; next_arrival_ < trace_.jobs.size() && trace_.jobs[next_arrival_].arrival_s <= until_s; ++next_arrival_) {
      admit(static_cast<std::uint32_t>(next_arrival_));
    }
  }

  void admit(std::uint32_t number) {
    const TraceJob& given = trace_.jobs[number];
    sharing::JobView job;
    job.id = number;
    job.arrival_s = given.arrival_s;
    job.requested = std::min(given.requested, options_.slots);
    const sharing::Curve& curve = curve_of(given);
    job.curve = &curve;
    Life life{Progress(curve, !spec_.elastic, given.work), {}};
    life.result.job = number;
    life.jobs_s_before = jobs_s_;
    life.overhead_s = std::max(0.0, muri_overhead_s(given.model, job.requested));
    if (options_.length_error > 0)
      life.said = std::exp(std::normal_distribution<>(0, options_.length_error)(error_rng_));
    job.remaining = options_.lengths_known ? given.work * life.said : sharing::kUnknown;
    const bool swaps = options_.cost.kind == Cost::Kind::kSwap;
    job.start_s = swaps ? options_.cost.start_s : 0;
    job.least = trace_.bounded ? std::min(given.least, options_.slots) : 1;
    job.packs = options_.settings.packs;
    job.alone_rate = curve.as_is(job.requested);
    view_.jobs.push_back(job);
    lives_.push_back(std::move(life));
  }

  void bring_up_to_date() {
    for (std::size_t place = 0; place < lives_.size(); ++place) {
      sharing::JobView& job = view_.jobs[place];
      const Life& life = lives_[place];
      job.packed_views = 0;
      if (job.held == 0) continue;
      if (view_.now_s >= life.ready_s - kInstant_s) job.starts.train(life.ready_s);
      if (life.beside != sharing::kNoJob) {
        job.packed_rate = job.alone_rate * life.packed_speed;
        job.packed_views = static_cast<std::uint32_t>((view_.now_s - life.beside_since_s) / kViewEvery_s);
      }
      const double held_s = view_.now_s - life.since_s;
      job.running_s = life.running_before_s + held_s;
      job.attained_slot_s = life.slot_s_before + held_s * job.held;
      const double remaining = life.progress.remaining(view_.now_s);
      job.done = trace_.jobs[life.result.job].work - remaining;
      if (options_.lengths_known) job.remaining = remaining * life.said;
    }
  }

  void decide() {
    bring_up_to_date();
    decision_.grants.assign(view_.jobs.size(), {});
    decision_.again_s = kNever;
    if (hosts_ && spec_.outside) view_.hosts = hosts_->up();
    if (view_.slots > 0) policy_->decide(view_, *state_, rng_, decision_);
    if (!decision_.problem.empty()) {
      outcome_.problem = "the policy " + spec_.name + ": " + decision_.problem;
      return;
    }
    ++outcome_.decisions;
    if (!spec_.outside) sharing::hold_starts(view_, spec_.elastic, decision_);
    again_s_ = decision_.again_s;
    if (trace_.bounded) bound();
    double sum = 0;
    for (const sharing::Grant& grant : decision_.grants) sum += grant.beside == sharing::kNoJob ? grant.slots : 0;
    if (sum > view_.slots * (1 + 1e-9)) {
      outcome_.problem =
          "the policy " + spec_.name + " granted " + std::to_string(sum) + " slots of " + std::to_string(view_.slots);
    } else if (again_s_ <= view_.now_s) {
      outcome_.problem = "the policy " + spec_.name + " asks to decide again without letting time pass";
    } else {
      if (hosts_) place();
      carry_out();
      if (options_.settings.packs) set_pairs();
      if (hosts_ || options_.settings.packs) set_speeds();
      if (migration_) look_for_moves();
    }
  }

  // The same for both, whatever the order of the two.
  double packed_speed(std::uint64_t job, std::uint64_t other) const {
    sharing::Rng rng(options_.seed ^ (std::min(job, other) << 32U) ^ std::max(job, other));
    const double part = static_cast<double>(rng() >> 11U) * 0x1.0p-53;
    return std::clamp(options_.packed_speed + kPairsDiffer * (2 * part - 1), 0.01, 1.0);
  }

  void set_pairs() {
    std::vector<std::uint64_t> beside(lives_.size(), sharing::kNoJob);
    for (std::size_t place = 0; place < lives_.size(); ++place) {
      const std::uint64_t host = decision_.grants[place].beside;
      const bool shares = host != sharing::kNoJob && view_.jobs[place].held > 0;
      view_.jobs[place].beside = shares ? host : sharing::kNoJob;
      if (!shares) continue;
      beside[place] = host;
      beside[place_of(host)] = view_.jobs[place].id;
    }
    for (std::size_t place = 0; place < lives_.size(); ++place) {
      Life& life = lives_[place];
      if (beside[place] == life.beside) continue;
      life.beside = beside[place];
      life.beside_since_s = view_.now_s;
      const bool shares = life.beside != sharing::kNoJob;
      life.packed_speed = shares ? packed_speed(view_.jobs[place].id, life.beside) : 1;
    }
  }

  // Jobs are numbered by arrival.
  std::size_t place_of(std::uint64_t job) const {
    const auto found = std::lower_bound(view_.jobs.begin(), view_.jobs.end(), job,
                                        [](const sharing::JobView& one, std::uint64_t id) { return one.id < id; });
    return static_cast<std::size_t>(found - view_.jobs.begin());
  }

  void bound() {
    std::vector<sharing::Bounds> bounds;
    for (std::size_t place = 0; place < lives_.size(); ++place) {
      const TraceJob& given = trace_.jobs[lives_[place].result.job];
      const sharing::JobView& job = view_.jobs[place];
      const std::uint32_t least = std::min(given.least, options_.slots);
      const std::uint32_t most = spec_.elastic ? job.curve->cap() : job.requested;
      bounds.push_back({least, std::clamp(most, least, options_.slots), job.held > 0, job.held > 0 && given.keeps, 0});
    }
    const auto shares = sharing::whole_shares(decision_.grants, bounds, {{}}, view_.slots);
    for (std::size_t place = 0; place < lives_.size(); ++place) {
      if (!is_guest(place)) decision_.grants[place].slots = shares[place];
    }
    follow_hosts();
  }

  bool is_guest(std::size_t place) const { return decision_.grants[place].beside != sharing::kNoJob; }

  // A guest has the slots of its host, or none.
  void follow_hosts() {
    for (std::size_t place = 0; place < lives_.size(); ++place) {
      sharing::Grant& grant = decision_.grants[place];
      if (is_guest(place) && decision_.grants[place_of(grant.beside)].slots != grant.slots) grant.slots = 0;
    }
  }

  // What finds no place waits, if it cannot do with less.
  void place() {
    std::vector<Hosts::Wanted> wanted;
    for (std::size_t place = 0; place < lives_.size(); ++place) {
      const double slots = is_guest(place) ? 0 : decision_.grants[place].slots;
      wanted.push_back({view_.jobs[place].id, static_cast<std::uint32_t>(slots)});
    }
    for (std::size_t place = 0; migration_ && place < lives_.size(); ++place) {
      if (wanted[place].slots != view_.jobs[place].held) migration_->overtake(*hosts_, wanted[place].job);
    }
    std::vector<std::uint32_t> slots = hosts_->place(wanted);
    seekers_.clear();
    bool again = false;
    for (std::size_t place = 0; place < lives_.size(); ++place) {
      const std::uint32_t least =
          spec_.elastic ? std::min(trace_.jobs[lives_[place].result.job].least, options_.slots) : wanted[place].slots;
      if (slots[place] == wanted[place].slots || (slots[place] >= least && spec_.elastic)) continue;
      wanted[place].slots = 0;
      again = true;
      if (least <= options_.hosts.slots) seekers_.push_back({least, {}});
    }
    if (again) slots = hosts_->place(wanted);
    for (std::size_t place = 0; place < lives_.size(); ++place) {
      if (!is_guest(place)) decision_.grants[place].slots = slots[place];
    }
    follow_hosts();
  }

  void look_for_moves() {
    std::vector<Migration::Subject> subjects;
    for (std::size_t place = 0; place < lives_.size(); ++place) {
      const sharing::JobView& job = view_.jobs[place];
      const Life& life = lives_[place];
      if (job.held == 0 || job.beside != sharing::kNoJob) continue;
      const double left_s = options_.lengths_known ? life.end_s - view_.now_s : job.running_s;
      subjects.push_back({job.id, job.curve, life.beside == sharing::kNoJob, life.since_s, left_s});
    }
    migration_->look(*hosts_, subjects, seekers_, view_.now_s);
  }

  void set_speeds() {
    for (std::size_t place = 0; place < lives_.size(); ++place) {
      if (view_.jobs[place].held == 0) continue;
      const bool is_assigned = view_.jobs[place].beside != sharing::kNoJob;  // in its host's slots
      const std::uint64_t placed = is_assigned ? lives_[place].beside : view_.jobs[place].id;
      const double on_hosts = hosts_ ? hosts_->speed(placed) * hosts_->spread(*view_.jobs[place].curve, placed) : 1;
      lives_[place].progress.set_speed(view_.now_s, lives_[place].packed_speed * on_hosts);
      lives_[place].end_s = lives_[place].progress.end_s();
    }
  }

  void carry_out() {
    for (std::size_t place = 0; place < lives_.size(); ++place) {
      if (decision_.grants[place].slots != view_.jobs[place].held) change(place, decision_.grants[place].slots);
    }
  }

  void change(std::size_t place, double slots) {
    sharing::JobView& job = view_.jobs[place];
    Life& life = lives_[place];
    if (job.started()) ++life.result.changes;
    if (slots == 0) ++life.result.suspensions;
    if (!job.started()) job.first_start_s = life.result.first_start_s = view_.now_s;
    if (job.held > 0) {
      life.running_before_s += view_.now_s - life.since_s;
      life.slot_s_before += (view_.now_s - life.since_s) * job.held;
    }
    job.running_s = life.running_before_s;
    job.attained_slot_s = life.slot_s_before;
    life.since_s = view_.now_s;
    life.progress.set_slots(view_.now_s, slots, options_.cost);
    life.end_s = life.progress.end_s();
    job.starts.change(view_.now_s, job.held, slots);
    life.ready_s = life.progress.ready_s(view_.now_s);
    job.held = slots;
    if (watch_) watch_({view_.now_s, life.result.job, slots});
  }

  const Trace& trace_;
  const sharing::PolicySpec& spec_;
  const Options& options_;
  const std::function<void(const Change&)>& watch_;
  std::unique_ptr<sharing::SharingPolicy> policy_;
  std::unique_ptr<sharing::State> state_;
  sharing::Rng rng_, error_rng_;
  sharing::View view_;
  sharing::Decision decision_;
  std::vector<Life> lives_;  // as View::jobs
  std::optional<Hosts> hosts_;
  std::optional<Migration> migration_;
  std::vector<placement::Seeker> seekers_;  // jobs that found no place, and fit on one host
  std::size_t next_arrival_ = 0;
  double again_s_ = kNever;
  double jobs_s_ = 0;  // integral of the number of jobs over time
  Outcome outcome_;
};

}  // namespace

Outcome simulate(const Trace& trace, const sharing::PolicySpec& policy, const Options& options,
                 const std::function<void(const Change&)>& watch) {
  return Simulation(trace, policy, options, watch).run();
}

ClusterFigures figures_of(const Trace& trace, const Outcome& outcome, std::uint32_t slots) {
  ClusterFigures figures;
  if (trace.jobs.empty()) return figures;
  std::vector<double> times;
  double held = 0, last_s = trace.jobs.front().arrival_s;
  for (const JobResult& result : outcome.jobs) {
    times.push_back(result.completion_s - trace.jobs[result.job].arrival_s);
    figures.mean_jct_s += times.back();
    figures.changes += result.changes;
    figures.finish_time_ratio_mean += result.finish_time_ratio;
    figures.finish_time_ratio_max = std::max(figures.finish_time_ratio_max, result.finish_time_ratio);
    held += result.slot_s;
    last_s = std::max(last_s, result.completion_s);
  }
  std::sort(times.begin(), times.end());
  const auto jobs = static_cast<double>(times.size());
  figures.jobs = times.size();
  figures.mean_jct_s /= jobs;
  figures.finish_time_ratio_mean /= jobs;
  figures.median_jct_s = times[static_cast<std::size_t>(.5 * jobs)];
  figures.p99_jct_s = times[static_cast<std::size_t>(.99 * jobs)];
  figures.max_jct_s = times.back();
  figures.makespan_s = last_s - trace.jobs.front().arrival_s;
  if (figures.makespan_s > 0) figures.utilization = held / (slots * figures.makespan_s);
  figures.decisions = outcome.decisions;
  return figures;
}

double demand(const Trace& trace) {
  if (trace.jobs.empty()) return 0;
  const double span_s = trace.jobs.back().arrival_s - trace.jobs.front().arrival_s;
  double slot_s = 0;
  for (const TraceJob& job : trace.jobs) slot_s += job.work / job.curve->as_is(job.requested) * job.requested;
  return span_s > 0 ? slot_s / span_s : 0;
}

}  // namespace elastictrain::heuristics::cluster
