// Purpose: the simulated time. Events due at the same instant run in the order in which they were scheduled.
// Thread: one.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "supervisor/protocol/ids.h"

namespace elastictrain::simulation {

class EventQueue {
 public:
  using Work = std::function<void()>;

  Instant now() const { return now_; }
  void at(Instant when, Work work) { heap_.push({std::max(when, now_), ++sequence_, std::move(work)}); }
  template <class Duration>
  void after(Duration delay, Work work) {
    at(now_ + std::chrono::duration_cast<Instant::duration>(delay), std::move(work));
  }

  // Returns false if nothing is due until then; the time is then `until`.
  bool run_next(Instant until) {
    if (heap_.empty() || heap_.top().when > until) {
      now_ = std::max(now_, until);
      return false;
    }
    Entry entry = std::move(const_cast<Entry&>(heap_.top()));
    heap_.pop();
    now_ = entry.when;
    ++done_;
    entry.work();
    return true;
  }

  bool empty() const { return heap_.empty(); }
  std::uint64_t done() const { return done_; }

 private:
  struct Entry {
    Instant when;
    std::uint64_t sequence = 0;
    Work work;
    bool operator<(const Entry& other) const {
      return when != other.when ? when > other.when : sequence > other.sequence;
    }
  };

  Instant now_{};
  std::uint64_t sequence_ = 0;
  std::uint64_t done_ = 0;
  std::priority_queue<Entry> heap_;
};

}  // namespace elastictrain::simulation
