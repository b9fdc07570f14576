#include "supervisor/cluster/replay/replay.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "supervisor/cluster/core/cluster.h"
#include "supervisor/cluster/replay/run_model.h"
#include "supervisor/protocol/display_text.h"

namespace elastictrain::cluster::replay {
namespace {

constexpr double kSoonest_s = 0.005;  // between two looks at what is due (cluster_process.cc)
constexpr double kLonger = 100;       // times as long as the past: then something is wrong
constexpr double kLeast_s = 3600;
constexpr std::uint64_t kMostEvents = 30'000'000;  // about a minute; runs that train report every second

cluster_core::Settings settings_of(const Past& past, const std::string& policy) {
  cluster_core::Settings settings;
  settings.version = past.version;
  settings.policy = policy;
  settings.slice_s = past.rules.slice_s;
  settings.decide_after_s = past.rules.decide_after_s;
  settings.recall_timeout_s = past.rules.recall_timeout_s;
  settings.suspended_per_slot = past.rules.suspended_per_slot;
  settings.estimated_lengths = past.rules.estimated_lengths;
  settings.migration = past.rules.migration;
  settings.seed = past.rules.seed;
  return settings;
}

class Replay {
 public:
  Replay(const Past& past, const std::string& policy) : past_(past), cluster_(settings_of(past, policy)) {
    prediction_.policy = policy;
  }

  Prediction run() {
    carry_out(cluster_.begin(past_.hosts.front().first));
    const double end_s = past_.until_s + kLonger * std::max(past_.until_s, kLeast_s);
    while (prediction_.problem.empty() && !is_over()) {
      const double next_s = std::max(now_s_, next());
      if (++events_ > kMostEvents) {
        prediction_.problem = "it is too long for a replay: more than " + std::to_string(kMostEvents) + " events";
        break;
      }
      if (next_s > end_s) {
        prediction_.problem = "the policy " + prediction_.policy + " leaves jobs waiting for ever";
        break;
      }
      now_s_ = next_s;
      pass();
    }
    if (held_ > 0) prediction_.trained_share = trained_ / held_;
    return std::move(prediction_);
  }

 private:
  double next() const {
    double next_s = wake_s_;
    if (hosts_ < past_.hosts.size()) next_s = std::min(next_s, past_.hosts[hosts_].first);
    if (jobs_ < past_.jobs.size()) next_s = std::min(next_s, past_.jobs[jobs_].submitted_s);
    if (orders_ < past_.orders.size()) next_s = std::min(next_s, past_.orders[orders_].at_s);
    for (const auto& [id, run] : runs_) next_s = std::min(next_s, run.next_s());
    return next_s;
  }

  // All that ends has ended, as far as it has an end.
  bool is_over() const {
    if (jobs_ < past_.jobs.size() || orders_ < past_.orders.size()) return false;
    return std::all_of(past_.jobs.begin(), past_.jobs.end(), [this](const PastJob& job) {
      return (!job.work && !job.cancelled) || prediction_.ended_s.contains(job.id);
    });
  }

  // What is due now: one thing of each kind, the others follow at the same instant.
  void pass() {
    if (hosts_ < past_.hosts.size() && past_.hosts[hosts_].first <= now_s_) {
      give(cluster_core::HostsChanged{past_.hosts[hosts_++].second});
    }
    if (jobs_ < past_.jobs.size() && past_.jobs[jobs_].submitted_s <= now_s_) submit(past_.jobs[jobs_++]);
    if (orders_ < past_.orders.size() && past_.orders[orders_].at_s <= now_s_) order(past_.orders[orders_++]);
    std::vector<cluster_core::JobId> due;
    for (const auto& [id, run] : runs_) {
      if (run.next_s() <= now_s_) due.push_back(id);
    }
    for (const cluster_core::JobId id : due) {
      const auto run = runs_.find(id);
      if (run == runs_.end()) continue;
      for (const cluster_core::Event& event : run->second.act(now_s_)) give(event);
    }
    if (wake_s_ <= now_s_) give(cluster_core::Tick{});
  }

  // Names are free again when their jobs have ended, which may be later here.
  void submit(const PastJob& job) {
    const cluster_core::JobId id = ++last_;
    past_id_[id] = job.id;
    runs_.emplace(id, RunModel(job, past_.delays, id));
    cluster_core::JobSpec spec = job.spec;
    spec.name = cluster_core::id_text(id);
    spec.stands = past_.rules.suspended_per_slot > 0;
    if (spec.arguments.empty()) {
      runs_.at(id).start(0, now_s_);
    } else {
      give(cluster_core::Submit{id, job.owner, {}, spec, job.unix_s});
    }
  }

  void order(const PastOrder& one) {
    const auto found = std::find_if(past_id_.begin(), past_id_.end(), [&](auto& id) { return id.second == one.job; });
    if (found == past_id_.end()) return;
    const cluster_core::Owner whoever{0, "root", true};
    give(cluster_core::Command{0, whoever, {}, one.order, cluster_core::id_text(found->first), one.priority});
  }

  void give(const cluster_core::Event& event) { carry_out(cluster_.step(event, now_s_)); }

  void carry_out(const cluster_core::Actions& actions) {
    for (const cluster_core::Action& action : actions) {
      std::visit([this](const auto& one) { act(one); }, action);
    }
    const double wake_s = cluster_.wake_s(now_s_);
    wake_s_ = wake_s == cluster_core::kNever ? wake_s : std::max(wake_s, now_s_ + kSoonest_s);
  }

  template <class Other>
  void act(const Other&) {}
  void act(const cluster_core::Write& write) {
    if (const auto* decided = std::get_if<cluster_core::record::Decided>(&write.record)) {
      for (const auto& share : decided->shares) {
        if (share.before != share.after) prediction_.given.push_back({now_s_, past_id_.at(share.job), share.after});
      }
    }
    if (const auto* ended = std::get_if<cluster_core::record::HasEnded>(&write.record)) {
      prediction_.ended_s[past_id_.at(ended->job)] = now_s_;
      trained_ += runs_.at(ended->job).trained_slot_s();
      held_ += ended->slot_s;
      runs_.erase(ended->job);
    }
  }
  void act(const cluster_core::Answer& answer) {
    if (answer.outcome != cluster_core::Outcome::kDone && answer.request != 0) prediction_.problem = answer.text;
  }
  void act(const cluster_core::Refuse& refused) { prediction_.problem = refused.text; }
  void act(const cluster_core::SendLease& lease) {
    if (RunModel* const one = run_of(lease.connection)) one->take_lease(lease, now_s_);
  }
  void act(const cluster_core::SendEnd& end) {
    if (RunModel* const one = run_of(end.connection)) one->end(now_s_);
  }
  void act(const cluster_core::StartRun& start) {
    if (RunModel* const one = run_of(start.job)) one->start(start.attempt, now_s_);
  }
  void act(const cluster_core::SignalRun& signal) {
    if (RunModel* const one = run_of(signal.job)) one->end(now_s_);
  }

  // Connections have the numbers of their jobs. Nothing: it has ended.
  RunModel* run_of(cluster_core::JobId id) {
    const auto found = runs_.find(id);
    return found == runs_.end() ? nullptr : &found->second;
  }

  const Past& past_;
  cluster_core::Cluster cluster_;
  std::map<cluster_core::JobId, RunModel> runs_;  // by their ids here
  std::map<cluster_core::JobId, cluster_core::JobId> past_id_;
  cluster_core::JobId last_ = 0;
  std::size_t hosts_ = 0, jobs_ = 0, orders_ = 0;  // the next ones
  std::uint64_t events_ = 0;
  double now_s_ = 0;
  double wake_s_ = cluster_core::kNever;
  double trained_ = 0, held_ = 0;
  Prediction prediction_;
};

// The length of the longest series that both have in common.
std::size_t common(const std::vector<std::uint32_t>& one, const std::vector<std::uint32_t>& other) {
  std::vector<std::size_t> before(other.size() + 1), here(other.size() + 1);
  for (const std::uint32_t size : one) {
    for (std::size_t i = 0; i < other.size(); ++i) {
      here[i + 1] = size == other[i] ? before[i] + 1 : std::max(here[i], before[i + 1]);
    }
    std::swap(before, here);
  }
  return before.back();
}

}  // namespace

Prediction replay(const Past& past, const std::string& policy) {
  return Replay(past, policy).run();
}

std::map<cluster_core::JobId, std::vector<Given>> by_job(const std::vector<Given>& given) {
  std::map<cluster_core::JobId, std::vector<Given>> jobs;
  for (const Given& one : given) jobs[one.job].push_back(one);
  return jobs;
}

std::vector<std::uint32_t> sizes_of(const std::vector<Given>& given) {
  std::vector<std::uint32_t> sizes;
  for (const Given& one : given) sizes.push_back(one.slots);
  return sizes;
}

Agreement agreement_of(const std::vector<Given>& live, const std::vector<Given>& predicted) {
  Agreement agreement;
  auto here = by_job(live), there = by_job(predicted);
  for (const auto& [id, given] : here) there.try_emplace(id);
  double first_s = std::numeric_limits<double>::infinity();
  for (const auto& [id, other] : there) {
    const std::vector<Given>& one = here[id];
    const auto sizes = sizes_of(one), other_sizes = sizes_of(other);
    agreement.equal += common(sizes, other_sizes);
    agreement.of += std::max(sizes.size(), other_sizes.size());
    if (sizes == other_sizes) continue;
    const auto parts = std::mismatch(sizes.begin(), sizes.end(), other_sizes.begin(), other_sizes.end());
    const auto number = static_cast<std::size_t>(parts.first - sizes.begin());
    const auto first_of = [number](const std::vector<Given>& all) {
      return number < all.size() ? std::optional(all[number]) : std::nullopt;
    };
    const auto mine = first_of(one), others = first_of(other);
    const double at_s = std::min(mine ? mine->at_s : first_s, others ? others->at_s : first_s);
    if (at_s >= first_s) continue;
    first_s = at_s;
    agreement.first_live = mine;
    agreement.first_predicted = others;
  }
  return agreement;
}

}  // namespace elastictrain::cluster::replay
