#include "launcher/expansion.h"

#include <algorithm>

namespace elastictrain::launcher {
namespace {

constexpr std::uint32_t kMaxDoublings = 16;

const HostUse* find_use(const HostDemand& demand, const std::string& name) {
  const auto found =
      std::find_if(demand.hosts.begin(), demand.hosts.end(), [&](const HostUse& use) { return use.name == name; });
  return found == demand.hosts.end() ? nullptr : &*found;
}

bool is_listed(const HostDemand& demand, const std::string& name) {
  const HostUse* const use = find_use(demand, name);
  return use != nullptr && use->listed;
}

bool works(const HostDemand& demand, const std::string& name) {
  const HostUse* const use = find_use(demand, name);
  return use != nullptr && use->workers > 0;
}

}  // namespace

Expansion::Step Expansion::step(const HostDemand& demand, Instant now) {
  Step step;
  release_left(demand, step);
  if (settings_.can_shrink) leave_surplus(demand, now, step);
  request(demand, now, step);
  return step;
}

void Expansion::request(const HostDemand& demand, Instant now, Step& step) {
  const std::uint32_t offered = offered_slots(demand);
  const bool is_short = demand.needed_slots > offered;
  if (is_short && !short_since_) short_since_ = now;
  if (!is_short && !enough_since_) enough_since_ = now;
  (is_short ? enough_since_ : short_since_).reset();
  step.withdraw = asking_ && !is_short && now - *enough_since_ >= settings_.shrink_after;
  const bool may_ask = settings_.can_expand && !asking_ && now >= next_request_;
  if (!is_short || !may_ask || now - *short_since_ < settings_.expand_after) return;
  asking_ = true;
  step.missing_slots = demand.needed_slots - offered;
}

// An answer without a new host is a failure too, unless hosts appear in the list by themselves; then no slots are
// missing when the time has come to ask again.
void Expansion::answer(const std::vector<Host>& hosts, Instant now) {
  asking_ = false;
  bool any = false;
  for (const Host& host : hosts) {
    const auto is_it = [&](const Host& other) { return other.name == host.name; };
    if (std::any_of(added_.begin(), added_.end(), is_it)) continue;
    replace_left(host);
    added_.push_back(host);
    added_at_[host.name] = now;
    any = true;
  }
  if (!any) return failure(now);
  failures_ = 0;
  next_request_ = now;
}

// The host is back before it was returned: only its earlier job has to be.
void Expansion::replace_left(const Host& back) {
  const auto is_it = [&](const Host& host) { return host.name == back.name; };
  for (const Host& host : left_) {
    if (is_it(host) && !host.job.empty() && host.job != back.job) replaced_.push_back(host);
  }
  std::erase_if(left_, is_it);
}

void Expansion::failure(Instant now) {
  asking_ = false;
  const auto wait = settings_.retry_after * (std::int64_t{1} << std::min(failures_, kMaxDoublings));
  next_request_ = now + std::min<std::chrono::milliseconds>(wait, settings_.longest_retry);
  ++failures_;
}

// One that is lost soon after it came counts as a request that failed, so that a host that never lasts is not asked for
// without end.
std::vector<Host> Expansion::lost(const std::vector<std::string>& names, Instant now) {
  std::vector<Host> news;
  for (const std::string& name : names) {
    const auto is_it = [&](const Host& host) { return host.name == name; };
    if (std::none_of(added_.begin(), added_.end(), is_it)) continue;
    const auto came = added_at_.find(name);
    if (!asking_ && came != added_at_.end() && now - came->second < settings_.shrink_after) failure(now);
    news.push_back(leave(name));
  }
  return news;
}

bool Expansion::is_left(const std::string& name) const {
  return std::any_of(left_.begin(), left_.end(), [&](const Host& host) { return host.name == name; });
}

std::vector<Host> Expansion::known() const {
  std::vector<Host> all = added_;
  all.insert(all.end(), left_.begin(), left_.end());
  all.insert(all.end(), replaced_.begin(), replaced_.end());
  return all;
}

// Added hosts count from the moment they are known, before the run uses them.
std::uint32_t Expansion::offered_slots(const HostDemand& demand) const {
  std::uint32_t slots = 0;
  for (const HostUse& use : demand.hosts) {
    if (!is_left(use.name)) slots += use.slots;
  }
  for (const Host& host : added_) {
    if (!is_listed(demand, host.name)) slots += host.slots;
  }
  return slots;
}

bool Expansion::is_surplus(const Host& host, const HostDemand& demand, std::uint32_t offered) const {
  const HostUse* use = find_use(demand, host.name);
  if (use == nullptr || !use->listed || offered - use->slots < demand.needed_slots) return false;
  return use->workers == 0 || demand.can_vacate;
}

// Names of added hosts, those with the fewest workers first.
std::vector<std::string> Expansion::by_workers(const HostDemand& demand) const {
  std::vector<std::pair<std::uint32_t, std::string>> order;
  for (const Host& host : added_) {
    const HostUse* const use = find_use(demand, host.name);
    order.emplace_back(use == nullptr ? 0 : use->workers, host.name);
  }
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (auto& [workers, name] : order) names.push_back(std::move(name));
  return names;
}

Host Expansion::leave(const std::string& name) {
  const auto found = std::find_if(added_.begin(), added_.end(), [&](const Host& host) { return host.name == name; });
  left_.push_back(std::move(*found));
  added_.erase(found);
  surplus_since_.erase(name);
  added_at_.erase(name);
  return left_.back();
}

void Expansion::leave_surplus(const HostDemand& demand, Instant now, Step& step) {
  std::uint32_t offered = offered_slots(demand);
  for (const std::string& name : by_workers(demand)) {
    const auto host = std::find_if(added_.begin(), added_.end(), [&](const Host& one) { return one.name == name; });
    if (!is_surplus(*host, demand, offered)) {
      surplus_since_.erase(name);
    } else if (now - surplus_since_.try_emplace(name, now).first->second >= settings_.shrink_after) {
      offered -= find_use(demand, name)->slots;
      step.leaves.push_back(leave(name));
    }
  }
}

// Those of an earlier step: the list of hosts without them has been offered since then.
void Expansion::release_left(const HostDemand& demand, Step& step) {
  step.released = std::exchange(replaced_, {});
  for (auto host = left_.begin(); host != left_.end();) {
    if (works(demand, host->name)) {
      ++host;
      continue;
    }
    step.released.push_back(std::move(*host));
    host = left_.erase(host);
  }
}

}  // namespace elastictrain::launcher
