#include "heuristics/straggler/detector.h"

#include <algorithm>
#include <map>

namespace elastictrain::heuristics {
namespace {

double nth(std::vector<double>& values, std::size_t n) {
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(n);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

}  // namespace

double lower_median(std::vector<double>& values) {
  return values.empty() ? 0 : nth(values, (values.size() - 1) / 2);
}

double middle_median(std::vector<double>& values) {
  if (values.empty()) return 0;
  const double upper = nth(values, values.size() / 2);
  return values.size() % 2 == 1 ? upper : (upper + nth(values, values.size() / 2 - 1)) / 2;
}

std::vector<SlowHost> slow_hosts(const JobView& job, const std::vector<SlowWorker>& slow,
                                 const std::vector<double>& slowdowns, double min_slowdown) {
  std::vector<SlowHost> found;
  std::map<std::uint32_t, SlowHost> suspects;
  for (const SlowWorker& worker : slow) suspects[worker.host] = {worker.host, {}, worker.slowdown, worker.slowdown};
  if (suspects.empty()) return found;
  bool others = false;
  for (std::size_t i = 0; i < job.members.size() && i < slowdowns.size(); ++i) {
    const auto suspect = suspects.find(job.members[i].host);
    if (suspect == suspects.end()) {
      others = true;
      continue;
    }
    SlowHost& host = suspect->second;
    host.workers.push_back(job.members[i].id);
    host.min_slowdown = std::min(host.min_slowdown, slowdowns[i]);
    host.max_slowdown = std::max(host.max_slowdown, slowdowns[i]);
  }
  for (auto& [index, host] : suspects) {
    const bool all_slow = host.min_slowdown > 1 + min_slowdown / 2;
    if (host.workers.size() >= 2 && all_slow && (others || suspects.size() > 1)) found.push_back(std::move(host));
  }
  return found;
}

std::string host_name(const ClusterView& view, std::uint32_t host) {
  return host < view.hosts.size() ? view.hosts[host].name : "host " + std::to_string(host);
}

}  // namespace elastictrain::heuristics
