#include "heuristics/placement/free_hosts.h"

#include <algorithm>
#include <functional>

namespace elastictrain::heuristics::placement {

FreeHosts::FreeHosts(const std::vector<std::uint32_t>& host_slots) : free_(host_slots), spanned_(host_slots.size()) {
  const std::uint32_t most = host_slots.empty() ? 0 : *std::max_element(host_slots.begin(), host_slots.end());
  by_free_.resize(most + 1);
  by_free_spanned_.resize(most + 1);
  for (std::uint32_t host = 0; host < free_.size(); ++host) by_free_[free_[host]].heap.push_back(host);
}

void FreeHosts::list(std::uint32_t host) {
  auto& heap = (spanned_[host] ? by_free_spanned_ : by_free_)[free_[host]].heap;
  heap.push_back(host);
  std::push_heap(heap.begin(), heap.end(), std::greater<>());
}

void FreeHosts::set_spanned(std::uint32_t host, bool spanned) {
  if (spanned_[host] == spanned) return;
  spanned_[host] = spanned;
  list(host);
}

void FreeHosts::take(std::uint32_t host, std::uint32_t slots) {
  free_[host] -= slots;
  list(host);
}

void FreeHosts::give(std::uint32_t host, std::uint32_t slots) {
  free_[host] += slots;
  list(host);
}

std::uint32_t FreeHosts::lowest(Bucket& bucket, std::uint32_t free, bool spanned) {
  auto& heap = bucket.heap;
  while (!heap.empty() && (free_[heap.front()] != free || spanned_[heap.front()] != spanned)) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.pop_back();
  }
  return heap.empty() ? kNoHost : heap.front();
}

std::uint32_t FreeHosts::best_fit(std::uint32_t slots, bool unspanned) {
  for (std::uint32_t free = slots; free <= most(); ++free) {
    const std::uint32_t host = lowest(by_free_[free], free, false);
    const std::uint32_t other = unspanned ? kNoHost : lowest(by_free_spanned_[free], free, true);
    if (std::min(host, other) != kNoHost) return std::min(host, other);
  }
  return kNoHost;
}

}  // namespace elastictrain::heuristics::placement
