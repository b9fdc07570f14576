#include "heuristics/cost/price.h"

#include <algorithm>

namespace elastictrain::heuristics {
namespace {

constexpr double kHour = 3600;

}  // namespace

Prices::Prices(const std::vector<HostView>& hosts, const JobView& job, double default_per_hour)
    : beyond_per_s_(default_per_hour / kHour) {
  const bool priced =
      std::any_of(hosts.begin(), hosts.end(), [](const HostView& host) { return host.price_per_worker_hour > 0; });
  if (!priced) return;
  std::vector<std::uint32_t> own(hosts.size());
  for (const auto& member : job.members) {
    if (member.host < own.size()) ++own[member.host];
  }
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const std::uint32_t count = own[i] + (hosts[i].leaving ? 0 : hosts[i].free_slots);
    if (count > 0) slots_.emplace_back(hosts[i].price_per_worker_hour / kHour, count);
  }
  std::sort(slots_.begin(), slots_.end());
  if (!slots_.empty()) beyond_per_s_ = slots_.back().first;
}

double Prices::per_s(std::uint32_t workers) const {
  double sum = 0;
  for (const auto& [price, count] : slots_) {
    const std::uint32_t taken = std::min(workers, count);
    sum += taken * price;
    workers -= taken;
  }
  return sum + workers * beyond_per_s_;
}

}  // namespace elastictrain::heuristics
