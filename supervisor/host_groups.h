// Purpose: the groups of hosts of a run whose workers lie on several hosts each: to the run a group is one host, whose
// name is those of its hosts, joined by '+', and whose slots are those of the host with the fewest. A group stays while
// all of its hosts are offered. A host that failed is doubted for a while: its group is dissolved where its other hosts
// can be grouped without it. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/host_source.h"

namespace elastictrain {

// "a+b" as its hosts.
std::vector<std::string> hosts_of_group(std::string_view group);

class HostGroups {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  explicit HostGroups(std::uint32_t size) : size_(size) {}

  struct Offer {
    std::vector<launcher::Host> groups;
    std::vector<std::string> left_over;  // hosts that are in no group
  };
  // The groups of the hosts that are offered now: those that there are, then new ones, in the order of the hosts.
  Offer offer(const std::vector<launcher::Host>& hosts, Instant now);

  // The run has agents on its hosts, until ended(): no other group gets them.
  void begun(const std::string& group);
  void ended(const std::string& group);
  void failed(const std::string& host, Instant now);
  void works(const std::string& host) { doubted_until_.erase(host); }

  std::optional<std::string> group_of(const std::string& host) const;

 private:
  using Names = std::vector<std::string>;
  struct Pool;

  bool is_doubted(const std::string& host, Instant now) const;
  bool is_broken(const Names& group, Instant now) const;
  void keep_offered(const Pool& pool);
  void dissolve_broken(const Pool& pool, Instant now);
  void form(const Pool& pool, Instant now);
  std::set<std::string> taken() const;

  std::uint32_t size_;
  std::vector<Names> groups_;
  std::multiset<std::string> in_use_;  // groups
  std::map<std::string, Instant> doubted_until_;
};

}  // namespace elastictrain
