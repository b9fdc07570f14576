#include "heuristics/sharing/queue_order.h"

#include <algorithm>
#include <map>

namespace elastictrain::heuristics::sharing {
namespace {

bool goes_later(const Keyed& a, const Keyed& b) {
  return a.key != b.key ? a.key > b.key : a.place > b.place;
}

}  // namespace

std::uint32_t grant_in_order(const View& view, std::vector<Keyed>& order, std::uint32_t free, Decision& decision) {
  std::map<std::uint32_t, std::size_t> left;  // jobs by request
  for (const Keyed& one : order) ++left[view.jobs[one.place].requested];
  std::make_heap(order.begin(), order.end(), goes_later);
  while (!left.empty() && left.begin()->first <= free) {
    std::pop_heap(order.begin(), order.end(), goes_later);
    const Keyed next = order.back();
    order.pop_back();
    const std::uint32_t requested = view.jobs[next.place].requested;
    const auto same = left.find(requested);
    if (--same->second == 0) left.erase(same);
    if (requested > free) continue;
    decision.grants[next.place] = {static_cast<double>(requested), Why::kFits, next.key};
    free -= requested;
  }
  return free;
}

}  // namespace elastictrain::heuristics::sharing
