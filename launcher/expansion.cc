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

}  // namespace

Expansion::Step Expansion::step(const HostDemand& demand, Instant now) {
  Step step;
  if (settings_.can_shrink) release_idle(demand, now, step);
  const std::uint32_t offered = offered_slots(demand);
  const bool may_ask = settings_.can_expand && !asking_ && now >= next_request_;
  if (!may_ask || demand.needed_slots <= offered) return step;
  asking_ = true;
  step.missing_slots = demand.needed_slots - offered;
  return step;
}

// An answer without a new host is a failure too, unless hosts appear in the list by themselves; then no slots are
// missing when the time has come to ask again.
void Expansion::answer(const std::vector<Host>& hosts, Instant now) {
  asking_ = false;
  bool any = false;
  for (const Host& host : hosts) {
    const bool known =
        std::any_of(added_.begin(), added_.end(), [&](const Host& other) { return other.name == host.name; });
    if (!known) added_.push_back(host);
    any = any || !known;
  }
  if (!any) return failure(now);
  failures_ = 0;
  next_request_ = now;
}

void Expansion::failure(Instant now) {
  asking_ = false;
  const auto wait = settings_.retry_after * (std::int64_t{1} << std::min(failures_, kMaxDoublings));
  next_request_ = now + std::min<std::chrono::milliseconds>(wait, settings_.longest_retry);
  ++failures_;
}

// Added hosts count from the moment they are known, before the run uses them.
std::uint32_t Expansion::offered_slots(const HostDemand& demand) const {
  std::uint32_t slots = 0;
  for (const HostUse& use : demand.hosts) slots += use.slots;
  for (const Host& host : added_) {
    if (find_use(demand, host.name) == nullptr) slots += host.slots;
  }
  return slots;
}

bool Expansion::is_idle(const Host& host, const HostDemand& demand, std::uint32_t offered) const {
  const HostUse* use = find_use(demand, host.name);
  return use != nullptr && use->workers == 0 && offered - use->slots >= demand.needed_slots;
}

void Expansion::release_idle(const HostDemand& demand, Instant now, Step& step) {
  std::uint32_t offered = offered_slots(demand);
  for (auto host = added_.begin(); host != added_.end();) {
    if (!is_idle(*host, demand, offered)) {
      idle_since_.erase(host->name);
      ++host;
      continue;
    }
    if (now - idle_since_.try_emplace(host->name, now).first->second < settings_.shrink_after) {
      ++host;
      continue;
    }
    offered -= find_use(demand, host->name)->slots;
    idle_since_.erase(host->name);
    step.released.push_back(std::move(*host));
    host = added_.erase(host);
  }
}

}  // namespace elastictrain::launcher
