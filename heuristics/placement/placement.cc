#include "heuristics/placement/placement.h"

#include <algorithm>
#include <functional>
#include <numeric>

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

namespace {

std::uint32_t sum_of(const std::vector<Piece>& pieces) {
  return std::accumulate(pieces.begin(), pieces.end(), 0U,
                         [](std::uint32_t sum, const Piece& p) { return sum + p.slots; });
}

class Placer {
 public:
  Placer(const std::vector<std::uint32_t>& host_slots, const std::vector<Job>& jobs)
      : jobs_(jobs), hosts_(host_slots), placed_(jobs.size()) {}

  std::vector<Placed> place() {
    for (std::size_t job = 0; job < jobs_.size(); ++job) keep(job);
    for (std::size_t job = 0; job < jobs_.size(); ++job) shrink(job);
    for (const std::size_t job : largest_first()) grow(job);
    return std::move(placed_);
  }

 private:
  std::uint32_t missing(std::size_t job) const {
    const std::uint32_t has = placed_[job].slots();
    return jobs_[job].slots > has ? jobs_[job].slots - has : 0;
  }

  void set_spanned(std::size_t job) {
    const bool spans = placed_[job].pieces.size() > 1;
    for (const Piece& piece : placed_[job].pieces) hosts_.set_spanned(piece.host, spans);
  }

  void keep(std::size_t job) {
    placed_[job].pieces = jobs_[job].held;
    for (const Piece& piece : placed_[job].pieces) hosts_.take(piece.host, piece.slots);
    if (placed_[job].pieces.size() > 1) set_spanned(job);
  }

  void shrink(std::size_t job) {
    auto& pieces = placed_[job].pieces;
    std::uint32_t has = sum_of(pieces);
    if (has <= jobs_[job].slots) return;
    const bool spanned = pieces.size() > 1;
    while (has > jobs_[job].slots) {
      const auto least = std::min_element(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
        return a.slots != b.slots ? a.slots < b.slots : a.host > b.host;
      });
      const std::uint32_t given = std::min(least->slots, has - jobs_[job].slots);
      hosts_.give(least->host, given);
      least->slots -= given;
      has -= given;
      if (least->slots > 0) continue;
      if (spanned) hosts_.set_spanned(least->host, false);
      pieces.erase(least);
    }
    if (spanned) set_spanned(job);
  }

  // Large jobs are hard to place; among equals the order of jobs counts.
  std::vector<std::size_t> largest_first() const {
    std::vector<std::size_t> order;
    for (std::size_t job = 0; job < jobs_.size(); ++job) {
      if (missing(job) > 0) order.push_back(job);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return jobs_[a].slots > jobs_[b].slots; });
    return order;
  }

  void grow(std::size_t job) {
    grow_in_place(job);
    if (missing(job) == 0) return;
    if (placed_[job].pieces.empty() || jobs_[job].one_host) {
      place_anew(job);
    } else {
      add_hosts(job);
    }
  }

  void grow_in_place(std::size_t job) {
    for (Piece& piece : placed_[job].pieces) {
      const std::uint32_t more = std::min(missing(job), hosts_.free(piece.host));
      if (more == 0) continue;
      hosts_.take(piece.host, more);
      piece.slots += more;
    }
  }

  // The fewest hosts with equal shares, from one host on.
  void place_anew(std::size_t job) {
    if (hosts_.most() == 0 || !placed_[job].pieces.empty()) return;
    const std::uint32_t slots = jobs_[job].slots, most_hosts = jobs_[job].one_host ? 1 : slots;
    for (std::uint32_t count = (slots + hosts_.most() - 1) / hosts_.most(); count <= most_hosts; ++count) {
      if (take_equal(job, count)) return;
      undo(job);
      if (hosts_.best_fit(1, true) == FreeHosts::kNoHost) break;
    }
    if (!jobs_[job].one_host) place_some(job);
  }

  // What fits on one host is better than nothing.
  void place_some(std::size_t job) {
    std::uint32_t slots = std::min(jobs_[job].slots, hosts_.most());
    while (slots > 0 && !take_piece(job, slots, false)) --slots;
  }

  bool take_equal(std::size_t job, std::uint32_t count) {
    const std::uint32_t slots = jobs_[job].slots, base = slots / count, larger = slots % count;
    for (std::uint32_t i = 0; i < count; ++i) {
      if (!take_piece(job, base + (i < larger ? 1 : 0), count > 1)) return false;
    }
    return true;
  }

  bool take_piece(std::size_t job, std::uint32_t slots, bool spans) {
    const std::uint32_t host = hosts_.best_fit(slots, spans);
    if (host == FreeHosts::kNoHost) return false;
    hosts_.take(host, slots);
    placed_[job].pieces.push_back({host, slots});
    if (spans) hosts_.set_spanned(host, true);
    return true;
  }

  void undo(std::size_t job) {
    for (const Piece& piece : placed_[job].pieces) {
      hosts_.give(piece.host, piece.slots);
      hosts_.set_spanned(piece.host, false);
    }
    placed_[job].pieces.clear();
  }

  // Only where no other spanning job uses the job's present host.
  void add_hosts(std::size_t job) {
    auto& pieces = placed_[job].pieces;
    if (pieces.size() == 1 && hosts_.spanned(pieces.front().host)) return;
    if (pieces.size() == 1) hosts_.set_spanned(pieces.front().host, true);
    for (std::uint32_t left = missing(job); left > 0; left = missing(job)) {
      std::uint32_t slots = std::min(left, hosts_.most());
      while (slots > 0 && !take_piece(job, slots, true)) --slots;
      if (slots == 0) break;
    }
    set_spanned(job);
  }

  const std::vector<Job>& jobs_;
  FreeHosts hosts_;
  std::vector<Placed> placed_;
};

}  // namespace

std::uint32_t Placed::slots() const {
  return sum_of(pieces);
}

std::vector<Placed> place(const std::vector<std::uint32_t>& host_slots, const std::vector<Job>& jobs) {
  return Placer(host_slots, jobs).place();
}

}  // namespace elastictrain::heuristics::placement
