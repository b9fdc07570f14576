#include "heuristics/straggler/remedies.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace elastictrain::heuristics {
namespace {

constexpr std::uint32_t kMaxCorrections = 2;
constexpr double kLargeGain = 3;  // multiples of least_gain
constexpr double kHelps = 0.25;   // of the gain that was expected
constexpr double kLeastJudged = 0.12;
constexpr double kRecentSteps = 8;
constexpr double kLeftAlone_s = 600;
constexpr double kPatience = 4;  // multiples of settle_steps, for shares that do not come about

using Speeds = std::map<std::uint64_t, double>;

std::vector<std::uint32_t> present_shares(const JobView& job) {
  std::vector<std::uint32_t> shares;
  shares.reserve(job.members.size());
  for (const WorkerView& member : job.members) shares.push_back(member.share);
  return shares;
}

std::vector<std::uint32_t> shares_of(const JobView& job, const Speeds& speeds) {
  std::vector<double> by_place;
  by_place.reserve(job.members.size());
  for (const WorkerView& member : job.members) {
    const auto own = speeds.find(member.id);
    by_place.push_back(own == speeds.end() ? 1 : own->second);
  }
  return share_out(job.global_batch, by_place, job.batch.max_share);
}

// The time at which the last worker finishes, in sample times of a normal worker.
double end_of(const JobView& job, const std::vector<std::uint32_t>& shares, const Speeds& target) {
  double end = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const auto own = target.find(job.members[i].id);
    end = std::max(end, shares[i] / (own == target.end() ? 1 : own->second));
  }
  return end;
}

Reason reason_of(const JobView& job, const Speeds& speeds, const std::vector<std::uint32_t>& shares, double gain) {
  std::string text;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const auto own = speeds.find(job.members[i].id);
    if (own == speeds.end() || text.size() > 300) continue;
    char one[160];
    std::snprintf(one, sizeof one,
                  "%sworker %llu takes %.2f times the others' time for a sample: share %u instead of %u",
                  text.empty() ? "" : "; ", static_cast<unsigned long long>(own->first), 1 / own->second, shares[i],
                  job.members[i].share);
    text += one;
  }
  if (text.empty()) text = "all workers have equal speed again: equal shares";
  char end[60];
  std::snprintf(end, sizeof end, "; steps get %.1f %% shorter", 100 * gain);
  return {"rebalance", text + end, {{"gain", gain}, {"slow", static_cast<double>(speeds.size())}}};
}

}  // namespace

// The first view with other shares is of steps before them, too.
void Rebalance::watch(const JobView& job) {
  const std::vector<std::uint32_t> shares = present_shares(job);
  if (shares != arrivals_.shares) {
    arrivals_ = {shares};
    return;
  }
  double steps = 0, last_s = 0;
  for (const WorkerView& member : job.members) {
    if (member.steps == 0) return;
    steps = std::max(steps, static_cast<double>(member.steps));
    last_s = std::max(last_s, member.compute_s);
  }
  const double weight = arrivals_.recent_s > 0 ? std::min(1.0, steps / kRecentSteps) : 1;
  arrivals_.recent_s += weight * (last_s - arrivals_.recent_s);
  arrivals_.steps += steps;
  arrivals_.sum_s += steps * last_s;
}

std::optional<Rebalance::Change> Rebalance::judge(const JobView& job, const RebalanceOptions& options, double now_s) {
  const bool is_known = arrivals_.shares == attempt_->shares && arrivals_.steps >= options.settle_steps;
  if (!is_known && job.steps_done - changed_at_steps_ < kPatience * options.settle_steps) return std::nullopt;
  const Attempt attempt = *std::exchange(attempt_, std::nullopt);
  if (!is_known || !(attempt.before_s > 0)) return std::nullopt;
  const double gain = 1 - arrivals_.mean_s() / attempt.before_s;
  if (gain >= kHelps * attempt.gain) return std::nullopt;
  char text[200];
  std::snprintf(text, sizeof text,
                "steps got %.1f %% shorter, and %.1f %% was expected: the samples are not what is slow; the shares are "
                "what they were, for ten minutes",
                100 * gain, 100 * attempt.gain);
  for (const auto& [worker, speed] : speeds_) left_alone_until_s_[worker] = now_s + kLeftAlone_s;
  speeds_ = attempt.before;
  changed_at_steps_ = job.steps_done;
  Change change{{}, {"rebalance_did_not_help", text, {{"expected", attempt.gain}, {"gain", gain}}}};
  for (const auto& [worker, speed] : speeds_) change.speeds.push_back({worker, speed});
  return change;
}

Rebalance::Speeds Rebalance::target_of(const JobView& job, const std::vector<SlowWorker>& slow,
                                       const std::vector<double>& slowdowns, const RebalanceOptions& options,
                                       double now_s) const {
  const auto is_left_alone = [&](std::uint64_t worker) {
    const auto found = left_alone_until_s_.find(worker);
    return found != left_alone_until_s_.end() && now_s < found->second;
  };
  Speeds target;
  for (std::size_t i = 0; i < job.members.size() && i < slowdowns.size(); ++i) {
    const auto own = speeds_.find(job.members[i].id);
    if (own == speeds_.end() || slowdowns[i] <= 1 + options.recovered_below) continue;
    target[own->first] = is_left_alone(own->first) ? own->second : 1 / slowdowns[i];
  }
  for (const SlowWorker& worker : slow) {
    if (!is_left_alone(worker.worker)) target[worker.worker] = 1 / std::max(worker.slowdown, 1.0);
  }
  return target;
}

std::optional<Rebalance::Change> Rebalance::decide(const JobView& job, const std::vector<SlowWorker>& slow,
                                                   const std::vector<double>& slowdowns,
                                                   const RebalanceOptions& options, double now_s) {
  if (job.changing) return std::nullopt;
  watch(job);
  if (attempt_) {
    if (auto taken_back = judge(job, options, now_s)) return taken_back;
    if (attempt_) return std::nullopt;
  }
  if (speeds_.empty() && slow.empty()) return std::nullopt;
  if (job.steps_done - changed_at_steps_ < options.settle_steps) return std::nullopt;
  Speeds target = target_of(job, slow, slowdowns, options, now_s);
  if (speeds_.empty() && target.empty()) return std::nullopt;
  const std::vector<std::uint32_t> now = present_shares(job);
  const std::vector<std::uint32_t> then = shares_of(job, target);
  const double end_now = end_of(job, now, target);
  const double gain = end_now > 0 ? 1 - end_of(job, then, target) / end_now : 0;
  const double large = kLargeGain * options.min_gain;
  const bool recovered = target.empty();  // equal shares end it, however little they bring
  if (recovered ? then == now : gain < (corrections_ < kMaxCorrections ? options.min_gain : large)) return std::nullopt;
  corrections_ = gain >= large ? 0 : corrections_ + 1;
  Change change{{}, reason_of(job, target, then, gain)};
  for (const auto& [worker, speed] : target) change.speeds.push_back({worker, speed});
  // A small gain is lost in the noise of so few steps.
  if (!recovered && gain >= kLeastJudged) attempt_ = Attempt{arrivals_.recent_s, gain, then, speeds_};
  speeds_ = std::move(target);
  changed_at_steps_ = job.steps_done;
  return change;
}

namespace {

constexpr double kHour_s = 3600;

template <class... Values>
std::string line(const char* form, Values... values) {
  char text[240];
  std::snprintf(text, sizeof text, form, values...);
  return text;
}

bool holds(const std::vector<std::uint64_t>& sorted, std::uint64_t id) {
  return std::binary_search(sorted.begin(), sorted.end(), id);
}

// Slots available to joiners: on the host itself, and elsewhere.
struct Slots {
  std::uint32_t same = 0;
  std::uint32_t elsewhere = 0;
};

Slots free_slots(const ClusterView& view, const JobView& job, std::uint32_t host) {
  Slots slots;
  for (std::uint32_t i = 0; i < view.hosts.size(); ++i) {
    if (view.hosts[i].leaving) continue;
    (i == host ? slots.same : slots.elsewhere) += view.hosts[i].free_slots;
  }
  slots.elsewhere += job.spares;
  return slots;
}

template <class Key>
void drop_past(std::map<Key, double>& until, double now_s) {
  std::erase_if(until, [&](const auto& entry) { return entry.second <= now_s; });
}

}  // namespace

JobDecision Replace::decide(const ClusterView& view, const JobView& job, const std::vector<SlowWorker>& slow,
                            const std::vector<SlowHost>& hosts, const std::vector<double>& slowdowns,
                            const ReplaceOptions& options) {
  std::erase_if(begun_s_, [&](double begun) { return view.now_s - begun >= kHour_s; });
  drop_past(left_alone_until_, view.now_s);
  drop_past(suspect_until_, view.now_s);
  JobDecision decision;
  if (attempt_) {
    const auto outcome = check(view, job, slowdowns, options);
    decision.reason = outcome.value_or(Reason{"replacing", "a replacement is starting or is being evaluated", {}});
    return decision;
  }
  if (slow.empty()) {
    decision.reason = {"none_slow", "no worker is slow", {}};
    return decision;
  }
  if (job.changing) {
    decision.reason = {kChanging, "a change is in progress; a slow worker is replaced afterwards", {}};
    return decision;
  }
  const auto proposal = choose(view, job, slow, hosts);
  if (proposal) return begin(view, job, *proposal, options);
  decision.reason = {"left_alone",
                     line("rank %u is slow on every worker: its work is slow, not its host", slow.front().rank),
                     {{"slowdown", slow.front().slowdown}}};
  return decision;
}

// Chooses the slowest candidate. All workers of a host that is slow as a whole move to other hosts.
std::optional<Replace::Proposal> Replace::choose(const ClusterView& view, const JobView& job,
                                                 const std::vector<SlowWorker>& slow,
                                                 const std::vector<SlowHost>& hosts) {
  const SlowWorker* worst = nullptr;
  for (const SlowWorker& worker : slow) {
    const bool candidate = left_alone_until_.count(worker.rank) == 0;
    if (candidate && (worst == nullptr || worker.slowdown > worst->slowdown)) worst = &worker;
  }
  if (worst == nullptr) return std::nullopt;
  Proposal proposal{{*worst}, worst->host, false, worst->slowdown, ""};
  const std::string name = host_name(view, worst->host);
  const auto blamed =
      std::find_if(hosts.begin(), hosts.end(), [&](const SlowHost& host) { return host.host == worst->host; });
  if (blamed != hosts.end()) {
    proposal.workers.clear();
    for (const WorkerView& member : job.members) {
      if (member.host == worst->host) proposal.workers.push_back({member.id, member.rank, member.host});
    }
    proposal.other_host = true;
    proposal.text = line("all %zu workers of %s are slow, %.2f to %.2f times the others' time: the host is the cause",
                         proposal.workers.size(), name.c_str(), blamed->min_slowdown, blamed->max_slowdown);
    return proposal;
  }
  const auto on_host = std::count_if(job.members.begin(), job.members.end(),
                                     [&](const WorkerView& member) { return member.host == worst->host; });
  // With a single worker on the host, the host may be the cause.
  proposal.other_host =
      suspect_until_.count(worst->host) > 0 || (on_host == 1 && free_slots(view, job, worst->host).elsewhere > 0);
  proposal.text = line("worker %llu (rank %u on %s) is slow: %s", static_cast<unsigned long long>(worst->worker),
                       worst->rank, name.c_str(), worst->because.c_str());
  return proposal;
}

JobDecision Replace::begin(const ClusterView& view, const JobView& job, const Proposal& proposal,
                           const ReplaceOptions& options) {
  JobDecision decision;
  decision.reason.numbers = {{"slowdown", proposal.slowdown}, {"slow", static_cast<double>(proposal.workers.size())}};
  if (static_cast<double>(begun_s_.size()) >= options.per_hour) {
    decision.reason.code = "budget_used";
    decision.reason.text = proposal.text + line("; not replaced: %zu of %.0f replacements per hour are used",
                                                begun_s_.size(), options.per_hour);
    return decision;
  }
  const Slots slots = free_slots(view, job, proposal.host);
  const std::uint32_t places = slots.elsewhere + (proposal.other_host ? 0 : slots.same);
  if (places < proposal.workers.size()) {
    decision.reason.code = "no_place";
    decision.reason.text = proposal.text + line("; not replaced: %u slots are free%s, %zu are needed", places,
                                                proposal.other_host ? " on other hosts" : "", proposal.workers.size());
    return decision;
  }
  begun_s_.push_back(view.now_s);
  decision.reason.code = "replace";
  decision.reason.text =
      proposal.text + line("; replaced%s (%zu of %.0f this hour)", proposal.other_host ? " on another host" : "",
                           begun_s_.size(), options.per_hour);
  attempt_ = Attempt{};
  attempt_->host = proposal.host;
  attempt_->slowdown = proposal.slowdown;
  attempt_->asked_s = view.now_s;
  for (const SlowWorker& worker : proposal.workers) {
    decision.replacements.push_back({worker.worker, decision.reason, proposal.other_host});
    attempt_->leavers.push_back(worker.worker);
    attempt_->ranks.push_back(worker.rank);
  }
  for (const WorkerView& member : job.members) attempt_->members.push_back(member.id);
  std::sort(attempt_->leavers.begin(), attempt_->leavers.end());
  std::sort(attempt_->members.begin(), attempt_->members.end());
  return decision;
}

// Unset while the joiners have not joined or have not done enough steps.
std::optional<Reason> Replace::check(const ClusterView& view, const JobView& job, const std::vector<double>& slowdowns,
                                     const ReplaceOptions& options) {
  const bool gone = std::none_of(job.members.begin(), job.members.end(),
                                 [&](const WorkerView& member) { return holds(attempt_->leavers, member.id); });
  if (!gone || job.changing) {
    if (view.now_s - attempt_->asked_s < options.give_up_s) return std::nullopt;
    attempt_.reset();
    return Reason{
        "replacement_missing", line("no joiner after %.0f s; the attempt is given up", options.give_up_s), {}};
  }
  if (attempt_->joined_at_steps < 0) attempt_->joined_at_steps = job.steps_done;
  if (job.steps_done - attempt_->joined_at_steps < options.check_steps) return std::nullopt;
  const Reason reason = judge(view, job, slowdowns);
  attempt_.reset();
  return reason;
}

Reason Replace::judge(const ClusterView& view, const JobView& job, const std::vector<double>& slowdowns) {
  const double limit = 1 + (attempt_->slowdown - 1) / 2;
  double worst = 1;
  bool same_host = false;
  std::vector<std::uint32_t> slow_ranks;
  for (std::size_t i = 0; i < job.members.size() && i < slowdowns.size(); ++i) {
    const WorkerView& member = job.members[i];
    const bool newcomer = !holds(attempt_->members, member.id);
    const bool has_rank = std::count(attempt_->ranks.begin(), attempt_->ranks.end(), member.rank) > 0;
    if (!newcomer && !has_rank) continue;
    worst = std::max(worst, slowdowns[i]);
    if (slowdowns[i] < limit) continue;
    same_host = same_host || (newcomer && member.host == attempt_->host);
    slow_ranks.push_back(member.rank);
  }
  const std::vector<std::pair<std::string, double>> numbers{{"before", attempt_->slowdown}, {"after", worst}};
  if (slow_ranks.empty()) {
    return {"replacement_helped",
            line("%.2f times the others' time before the replacement, %.2f after it", attempt_->slowdown, worst),
            numbers};
  }
  const double until_s = view.now_s + kHour_s;
  if (same_host) {
    suspect_until_[attempt_->host] = until_s;
    return {"replacement_did_not_help",
            line("still %.2f times the others' time on the same host; the next attempt goes to another one", worst),
            numbers};
  }
  for (const std::uint32_t rank : slow_ranks) left_alone_until_[rank] = until_s;
  return {"replacement_did_not_help",
          line("still %.2f times the others' time on another host: the work of rank %u is slow; left alone for an hour",
               worst, slow_ranks.front()),
          numbers};
}

}  // namespace elastictrain::heuristics
