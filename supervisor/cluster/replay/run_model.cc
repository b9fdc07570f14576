#include "supervisor/cluster/replay/run_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace elastictrain::cluster::replay {
namespace {

constexpr double kReportEvery_s = 1;  // as runs do (supervisor/cluster_adapter.h)
constexpr double kReportSoon_s = 0.02;
constexpr double kHeardLate_s = 0.25;  // what a report says of the samples is as old as a heartbeat of the workers
constexpr std::uint32_t kMostViews = 32;
constexpr int kPreempted = 75, kCancelled = 130;
constexpr double kInstant_s = 1e-9;

}  // namespace

RunModel::RunModel(const PastJob& past, const Delays& delays, cluster_core::JobId id)
    : past_(&past), delays_(&delays), id_(id) {}

void RunModel::start(std::uint32_t attempt, double now_s) {
  attempt_ = attempt;
  over_ = false;
  join_s_ = now_s + delays_->join_s;
}

void RunModel::take_lease(const cluster_core::SendLease& lease, double now_s) {
  if (lease.version <= seen_ || over_) return;
  train(now_s);
  seen_ = lease.version;
  allowed_ = {lease.slots.begin(), lease.slots.end()};
  moves_ = lease.moves;
  hold_ = lease.hold;
  report_soon(now_s);
  if (hold_) {
    stand_s_ = now_s + delays_->shrink_s;
    return;
  }
  stands_ = false;
  stand_s_ = cluster_core::kNever;
  for (Leaving& one : leaving_) std::erase_if(one.slots, [this](Slot slot) { return allowed_.contains(slot); });
  Places undone, gone, fresh;
  for (const Slot slot : starting_) {
    if (!allowed_.contains(slot)) undone.insert(slot);
  }
  for (const Slot slot : members_) {
    if (!allowed_.contains(slot)) gone.insert(slot);
  }
  for (const Slot slot : undone) starting_.erase(slot);
  leave(undone, delays_->undo_s, now_s);
  suspends_ = allowed_.empty();
  if (!moves_) leave(gone, suspends_ ? delays_->suspend_s : delays_->shrink_s, now_s);
  if (allowed_.size() >= past_->spec.min) {
    for (const Slot slot : allowed_) {
      if (!members_.contains(slot) && starting_.insert(slot).second) fresh.insert(slot);
    }
  }
  if (starting_.empty()) {
    ready_s_ = cluster_core::kNever;
  } else if (!fresh.empty()) {
    const bool grows = !members_.empty() && members_ != gone;
    ready_s_ = now_s + std::max(0.0, start_s(grows) - kReportSoon_s);
  }
}

// As long as this start of it has taken, or else as its last one of the kind, or those of other jobs. As its cluster
// has seen it: until the report.
double RunModel::start_s(bool grows) const {
  const auto& own_s = grows ? past_->growths_s : past_->first_starts_s;
  if (own_s.empty()) return grows ? delays_->growth_s : delays_->first_start_s;
  return own_s[std::min<std::size_t>(grows ? growths_ : first_starts_, own_s.size() - 1)];
}

// Members of a shrink train until the others go on without them.
void RunModel::leave(const Places& slots, double after_s, double now_s) {
  if (!slots.empty()) leaving_.push_back({now_s + after_s, slots});
}

void RunModel::end(double now_s) {
  if (over_) return;
  end_status_ = kCancelled;
  end_s_ = std::min(end_s_, now_s + (members_.empty() ? delays_->undo_s : delays_->suspend_s));
}

// When its work is done as it trains now.
double RunModel::done_s() const {
  if (finished_s_ < cluster_core::kNever) return finished_s_ + delays_->end_s;
  if (!past_->work || members_.empty() || stands_) return cluster_core::kNever;
  const double rate = rate_of(*past_, static_cast<std::uint32_t>(members_.size()));
  return trained_until_s_ + (*past_->work - samples_) / rate + delays_->end_s;
}

double RunModel::next_s() const {
  if (over_) return cluster_core::kNever;
  double next_s = std::min({join_s_, report_s_, ready_s_, end_s_, stand_s_, done_s()});
  for (const Leaving& one : leaving_) next_s = std::min(next_s, one.at_s);
  return next_s;
}

void RunModel::train(double now_s) {
  const double since_s = std::exchange(trained_until_s_, now_s);
  const auto size = static_cast<std::uint32_t>(members_.size());
  if (size == 0 || stands_ || finished_s_ < cluster_core::kNever) return;
  double passed_s = now_s - since_s;
  const double rate = rate_of(*past_, size);
  if (past_->work && samples_ + rate * passed_s >= *past_->work) {
    passed_s = (*past_->work - samples_) / rate;
    finished_s_ = since_s + passed_s;
  }
  samples_ += rate * passed_s;
  at_size_s_[size] += passed_s;
  trained_slot_s_ += size * passed_s;
}

void RunModel::set_members(Places members, double now_s) {
  train(now_s);
  members_ = std::move(members);
  report_soon(now_s);
}

void RunModel::report_soon(double now_s) {
  if (connection_ != 0) report_s_ = std::min(report_s_, now_s + kReportSoon_s);
}

std::vector<cluster_core::Event> RunModel::act(double now_s) {
  const double until_s = now_s + kInstant_s;
  std::vector<cluster_core::Event> said;
  if (join_s_ <= until_s) {
    join_s_ = cluster_core::kNever;
    connection_ = id_;
    report_s_ = now_s + kReportSoon_s;
    said.emplace_back(join());
    return said;
  }
  const bool is_done = done_s() <= until_s;
  if (is_done || end_s_ <= until_s) {
    train(now_s);
    return ending(is_done ? past_->status : end_status_);
  }
  for (auto one = leaving_.begin(); one != leaving_.end();) {
    if (one->at_s > until_s) {
      ++one;
      continue;
    }
    Places left = members_;
    for (const Slot slot : one->slots) left.erase(slot);
    set_members(std::move(left), now_s);
    one = leaving_.erase(one);
  }
  if (ready_s_ <= until_s) {
    ready_s_ = cluster_core::kNever;
    ++(members_.empty() ? first_starts_ : growths_);
    Places members = members_;
    members.insert(starting_.begin(), starting_.end());
    if (moves_) std::erase_if(members, [this](Slot slot) { return !allowed_.contains(slot); });
    starting_.clear();
    set_members(std::move(members), now_s);
  }
  if (stand_s_ <= until_s) {
    train(now_s);
    stand_s_ = cluster_core::kNever;
    stands_ = true;
    report_soon(now_s);
  }
  const bool is_away = suspends_ && holds().empty();
  if (is_away && past_->leaves_process) {
    suspends_ = false;
    return ending(kPreempted);
  }
  if (report_s_ <= until_s) {
    train(now_s);
    said.emplace_back(report());
    report_s_ = members_.empty() ? cluster_core::kNever : now_s + kReportEvery_s;  // without any it has no news
  }
  return said;
}

std::vector<cluster_core::Event> RunModel::ending(int status) {
  over_ = true;
  const cluster_core::Connection connection = connection_;
  connection_ = 0;
  join_s_ = report_s_ = ready_s_ = end_s_ = stand_s_ = cluster_core::kNever;
  allowed_.clear();
  members_.clear();
  starting_.clear();
  leaving_.clear();
  std::vector<cluster_core::Event> said;
  if (connection != 0) {
    said.emplace_back(cluster_core::RunEnded{connection, status});
    said.emplace_back(cluster_core::Disconnected{connection});
  }
  if (attempt_ > 0) said.emplace_back(cluster_core::ProcessEnded{id_, attempt_, status, false, ""});
  return said;
}

cluster_core::Slots RunModel::holds() const {
  Places all = members_;
  all.insert(starting_.begin(), starting_.end());
  for (const Leaving& one : leaving_) all.insert(one.slots.begin(), one.slots.end());
  return {all.begin(), all.end()};
}

cluster_core::Join RunModel::join() const {
  cluster_core::Join join;
  join.connection = connection_;
  join.owner = past_->owner;
  if (attempt_ > 0) join.job = cluster_core::id_text(id_);
  join.directory = cluster_core::id_text(id_);
  join.pid = static_cast<std::int64_t>(id_);
  join.spec = past_->spec;
  join.spec.arguments.clear();
  join.spec.samples_total.reset();
  join.moves = true;
  join.lease = seen_;
  join.unix_s = past_->unix_s;
  return join;
}

cluster_core::Report RunModel::report() const {
  cluster_core::Report report;
  report.connection = connection_;
  report.lease = seen_;
  report.holds = holds();
  report.stands = stands_;
  report.workers = static_cast<std::uint32_t>(members_.size());
  report.phase = stands_ ? "suspended" : !members_.empty() ? "training" : !starting_.empty() ? "starting" : "waiting";
  const auto size = static_cast<std::uint32_t>(members_.size());
  const double unheard = stands_ ? 0 : kHeardLate_s * rate_of(*past_, size);
  report.samples = static_cast<std::uint64_t>(std::max(0.0, samples_ - unheard));
  report.samples_total = past_->spec.samples_total;
  for (const PastJob::Length& length : past_->lengths) {
    if (at_size_s_.empty() && members_.empty()) break;
    if (samples_ < length.at_samples) break;
    if (length.total) report.samples_total = length.total;
    if (length.expected == 0) continue;
    report.expected_samples = length.expected;
    report.expected_error = length.error;
  }
  report.rates = rates();
  return report;
}

// One view a report, from the first one that has seen enough steps of a size.
std::vector<cluster_core::RateSeen> RunModel::rates() const {
  std::vector<cluster_core::RateSeen> rates;
  const double first_s = delays_->first_view_s, counts_s = delays_->measured_s;
  for (const auto& [size, trained_s] : at_size_s_) {
    if (trained_s < first_s) continue;
    const double views = trained_s < counts_s
                             ? 1 + std::floor((trained_s - first_s) / (counts_s - first_s) * 2)
                             : cluster_core::kFewestViews + std::floor((trained_s - counts_s) / kReportEvery_s);
    rates.push_back({size, rate_of(*past_, size), static_cast<std::uint32_t>(std::min<double>(views, kMostViews))});
  }
  return rates;
}

}  // namespace elastictrain::cluster::replay
