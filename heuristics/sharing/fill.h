// Purpose: hands out slots one at a time to the job that comes first by a rule, in O(log n) each.
//
// Two orders. `FirstOf` is a heap by a key that changes only for the job that got the slot. `Bracket` is for rules that
// compare two jobs and are not transitive, like that of AFS: the jobs meet in a fixed bracket, neighbours by arrival
// first, winners with winners. The rule's authors scan all jobs for every slot; both are an order in which to compare,
// and the outcome of an intransitive rule depends on it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "heuristics/sharing/view.h"

namespace elastictrain::heuristics::sharing {

inline constexpr std::uint32_t kNobody = UINT32_MAX;

// The most slots that the job can use.
inline std::uint32_t most_slots(const View& view, const JobView& job) {
  return std::min(job.curve->cap(), view.slots);
}

// `Better(a, b)`: the place that wins; both are valid places, a < b.
template <class Better>
class Bracket {
 public:
  Bracket(std::uint32_t jobs, Better better) : better_(better) {
    while (leaves_ < jobs) leaves_ *= 2;
    winner_.assign(2 * leaves_, kNobody);
    for (std::uint32_t place = 0; place < jobs; ++place) winner_[leaves_ + place] = place;
    for (std::uint32_t node = leaves_ - 1; node > 0; --node) play(node);
  }

  // kNobody if all are out.
  std::uint32_t first() const { return winner_[1]; }
  // The job at this place has changed.
  void play_again(std::uint32_t place) {
    std::uint32_t winner = winner_[leaves_ + place];
    for (std::uint32_t node = leaves_ + place; node > 1; node /= 2) {
      const std::uint32_t other = winner_[node ^ 1];
      winner = (node & 1) == 0 ? winner_of(winner, other) : winner_of(other, winner);
      winner_[node / 2] = winner;
    }
  }
  void take_out(std::uint32_t place) {
    winner_[leaves_ + place] = kNobody;
    play_again(place);
  }

 private:
  void play(std::uint32_t node) { winner_[node] = winner_of(winner_[2 * node], winner_[2 * node + 1]); }
  std::uint32_t winner_of(std::uint32_t a, std::uint32_t b) const {
    return a == kNobody ? b : b == kNobody ? a : better_(a, b);
  }

  Better better_;
  std::uint32_t leaves_ = 1;
  std::vector<std::uint32_t> winner_;  // by node: 1 is the root, the leaves come last
};

// A heap of places by key, the smallest first; equal keys by place.
class FirstOf {
 public:
  struct Entry {
    double key = 0;
    std::uint32_t place = 0;
  };

  void reserve(std::size_t jobs) { entries_.reserve(jobs); }
  void add(double key, std::uint32_t place) { entries_.push_back({key, place}); }
  void order() { std::make_heap(entries_.begin(), entries_.end(), later); }
  bool empty() const { return entries_.empty(); }
  const Entry& first() const { return entries_.front(); }
  // Gives the first one another key.
  void change_first(double key) {
    const std::uint32_t place = take_first();
    entries_.push_back({key, place});
    std::push_heap(entries_.begin(), entries_.end(), later);
  }
  std::uint32_t take_first() {
    std::pop_heap(entries_.begin(), entries_.end(), later);
    const std::uint32_t place = entries_.back().place;
    entries_.pop_back();
    return place;
  }

 private:
  static bool later(const Entry& a, const Entry& b) { return a.key != b.key ? a.key > b.key : a.place > b.place; }
  std::vector<Entry> entries_;
};

// Gives every job as much as it can use if there is enough for that; false otherwise.
bool grant_all_they_can_use(const View& view, Decision& decision);

}  // namespace elastictrain::heuristics::sharing
