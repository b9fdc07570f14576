#include "supervisor/cluster/run_report.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace elastictrain::cluster {

void Holds::started(WorkerId worker, AgentId agent, const std::string& host, std::uint32_t slot) {
  held_[worker] = {agent, host, slot, std::nullopt};
}

void Holds::ended(WorkerId worker, AgentId agent) {
  const auto found = held_.find(worker);
  if (found != held_.end() && found->second.agent == agent) held_.erase(found);
}

void Holds::out_of_reach(AgentId agent, Instant when) {
  for (auto& [worker, held] : held_) {
    if (held.agent == agent && !held.until) held.until = when;
  }
}

void Holds::back(AgentId agent, const std::vector<WorkerId>& living) {
  const std::set<WorkerId> alive(living.begin(), living.end());
  std::erase_if(held_, [&](const auto& entry) { return entry.second.agent == agent && !alive.contains(entry.first); });
  for (auto& [worker, held] : held_) {
    if (held.agent == agent) held.until.reset();
  }
}

void Holds::pass(Instant now) {
  std::erase_if(held_, [&](const auto& entry) { return entry.second.until && *entry.second.until <= now; });
}

std::optional<Instant> Holds::next() const {
  std::optional<Instant> soonest;
  for (const auto& [worker, held] : held_) {
    if (held.until && (!soonest || *held.until < *soonest)) soonest = held.until;
  }
  return soonest;
}

std::vector<HostSlots> Holds::slots() const {
  std::map<std::string, std::set<std::uint32_t>> by_host;
  for (const auto& [worker, held] : held_) by_host[held.host].insert(held.slot);
  std::vector<HostSlots> list;
  for (const auto& [host, slots] : by_host) list.push_back({host, {slots.begin(), slots.end()}});
  return list;
}

void RateBook::set_beside(const std::string& job) {
  if (job == beside_) return;
  beside_ = job;
  packed_.clear();
  straddles_ = true;
}

void RateBook::add(Sum& sum, const heuristics::Interval& interval, std::uint32_t remembered) {
  if (sum.views >= remembered) sum = {sum.samples / 2, sum.seconds / 2, sum.views / 2, sum.seen};
  sum.samples += static_cast<double>(interval.samples);
  sum.seconds += interval.seconds();
  ++sum.views;
  ++sum.seen;
}

void RateBook::add(const std::vector<heuristics::Interval>& intervals, std::uint32_t hosts) {
  Sums& sums = beside_.empty() ? sums_ : packed_;
  for (const heuristics::Interval& interval : intervals) {
    const double seconds = interval.seconds();
    const bool usable = std::isfinite(seconds) && seconds > 0 && interval.samples > 0 && interval.workers > 0;
    if (interval.warm_up || !usable) continue;
    if (std::exchange(straddles_, false)) continue;
    const auto place = std::pair(interval.workers, std::clamp(hosts, 1U, interval.workers));
    if (!sums.contains(place) && sums.size() >= kMaxRates) continue;
    add(sums[place], interval, beside_.empty() ? kRememberedViews : kRememberedPackedViews);
  }
}

std::vector<Rate> RateBook::rates_of(const Sums& sums, std::uint32_t Sum::*views) {
  std::vector<Rate> rates;
  for (const auto& [place, sum] : sums) {
    const double rate = sum.samples / sum.seconds;
    if (rate <= static_cast<double>(kMaxCount)) rates.push_back({place.first, place.second, rate, sum.*views});
  }
  return rates;
}

}  // namespace elastictrain::cluster
