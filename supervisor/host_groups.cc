#include "supervisor/host_groups.h"

#include <algorithm>
#include <utility>

namespace elastictrain {
namespace {

// After it, a host that failed is as good as any other: it may have been repaired.
constexpr std::chrono::seconds kDoubted{60};

std::string name_of(const std::vector<std::string>& hosts) {
  std::string name;
  for (const std::string& host : hosts) name += (name.empty() ? "" : "+") + host;
  return name;
}

}  // namespace

std::vector<std::string> hosts_of_group(std::string_view group) {
  std::vector<std::string> hosts;
  for (;;) {
    const std::size_t end = group.find('+');
    hosts.emplace_back(group.substr(0, end));
    if (end == std::string_view::npos) return hosts;
    group.remove_prefix(end + 1);
  }
}

// What is offered, each host once, in order.
struct HostGroups::Pool {
  std::vector<launcher::Host> hosts;

  explicit Pool(const std::vector<launcher::Host>& offered) {
    for (const launcher::Host& host : offered) {
      if (launcher::Host* known = find(host.name)) {
        known->slots += host.slots;
      } else {
        hosts.push_back(host);
      }
    }
  }
  launcher::Host* find(const std::string& name) {
    const auto found =
        std::find_if(hosts.begin(), hosts.end(), [&](const launcher::Host& host) { return host.name == name; });
    return found == hosts.end() ? nullptr : &*found;
  }
  const launcher::Host* find(const std::string& name) const { return const_cast<Pool*>(this)->find(name); }

  // Hosts of different jobs of the batch system come and go apart.
  bool has(const Names& group) const {
    const launcher::Host* first = find(group.front());
    return first != nullptr && std::all_of(group.begin(), group.end(), [&](const std::string& name) {
             const launcher::Host* host = find(name);
             return host != nullptr && host->job == first->job;
           });
  }
};

HostGroups::Offer HostGroups::offer(const std::vector<launcher::Host>& hosts, Instant now) {
  const Pool pool(hosts);
  keep_offered(pool);
  dissolve_broken(pool, now);
  form(pool, now);
  Offer offer;
  for (const Names& group : groups_) {
    launcher::Host whole = *pool.find(group.front());
    whole.name = name_of(group);
    for (const std::string& name : group) whole.slots = std::min(whole.slots, pool.find(name)->slots);
    offer.groups.push_back(std::move(whole));
  }
  const std::set<std::string> used = taken();
  for (const launcher::Host& host : pool.hosts) {
    if (!used.contains(host.name)) offer.left_over.push_back(host.name);
  }
  return offer;
}

void HostGroups::begun(const std::string& group) {
  in_use_.insert(group);
}

void HostGroups::ended(const std::string& group) {
  const auto found = in_use_.find(group);
  if (found != in_use_.end()) in_use_.erase(found);
}

void HostGroups::failed(const std::string& host, Instant now) {
  doubted_until_[host] = now + kDoubted;
}

std::optional<std::string> HostGroups::group_of(const std::string& host) const {
  for (const Names& group : groups_) {
    if (std::find(group.begin(), group.end(), host) != group.end()) return name_of(group);
  }
  for (const std::string& group : in_use_) {
    const Names hosts = hosts_of_group(group);
    if (std::find(hosts.begin(), hosts.end(), host) != hosts.end()) return group;
  }
  return std::nullopt;
}

bool HostGroups::is_doubted(const std::string& host, Instant now) const {
  const auto found = doubted_until_.find(host);
  return found != doubted_until_.end() && now < found->second;
}

bool HostGroups::is_broken(const Names& group, Instant now) const {
  return !in_use_.contains(name_of(group)) &&
         std::any_of(group.begin(), group.end(), [&](const std::string& host) { return is_doubted(host, now); });
}

void HostGroups::keep_offered(const Pool& pool) {
  std::erase_if(groups_, [&](const Names& group) { return !pool.has(group); });
  // One whose host has come back, or of an earlier supervisor of the run.
  for (const std::string& name : in_use_) {
    const Names group = hosts_of_group(name);
    const bool is_known = std::any_of(groups_.begin(), groups_.end(), [&](const Names& known) {
      return std::find_first_of(known.begin(), known.end(), group.begin(), group.end()) != known.end();
    });
    if (!is_known && group.size() == size_ && pool.has(group)) groups_.push_back(group);
  }
}

// Only where that makes more groups of hosts that are not doubted: the run tries the others again.
void HostGroups::dissolve_broken(const Pool& pool, Instant now) {
  const std::set<std::string> used = taken();
  const auto is_good = [&](const std::string& host) { return !is_doubted(host, now); };
  std::map<std::string, std::size_t> free;  // by job
  for (const launcher::Host& host : pool.hosts) {
    if (!used.contains(host.name) && host.slots > 0 && is_good(host.name)) ++free[host.job];
  }
  auto all = free;
  for (const Names& group : groups_) {
    if (!is_broken(group, now)) continue;
    all[pool.find(group.front())->job] += static_cast<std::size_t>(std::count_if(group.begin(), group.end(), is_good));
  }
  std::erase_if(groups_, [&](const Names& group) {
    const std::string& job = pool.find(group.front())->job;
    return is_broken(group, now) && all[job] / size_ > free[job] / size_;
  });
}

void HostGroups::form(const Pool& pool, Instant now) {
  const std::set<std::string> used = taken();
  std::map<std::string, Names> open;  // by job
  for (const bool doubted : {false, true}) {
    for (const launcher::Host& host : pool.hosts) {
      if (used.contains(host.name) || host.slots == 0 || is_doubted(host.name, now) != doubted) continue;
      Names& group = open[host.job];
      group.push_back(host.name);
      if (group.size() == size_) groups_.push_back(std::exchange(group, {}));
    }
  }
}

std::set<std::string> HostGroups::taken() const {
  std::set<std::string> hosts;
  for (const Names& group : groups_) hosts.insert(group.begin(), group.end());
  for (const std::string& group : in_use_) {
    for (std::string& host : hosts_of_group(group)) hosts.insert(std::move(host));
  }
  return hosts;
}

}  // namespace elastictrain
