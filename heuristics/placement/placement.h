// Purpose: sizes of jobs into slots on hosts, keeping what can stay, with an index of hosts by their free slots.
#pragma once

#include <cstdint>
#include <vector>

// Hosts by the number of their free slots, with the lowest host of a number found in O(1) amortized.

namespace elastictrain::heuristics::placement {

class FreeHosts {
 public:
  explicit FreeHosts(const std::vector<std::uint32_t>& host_slots);

  std::uint32_t free(std::uint32_t host) const { return free_[host]; }
  std::uint32_t most() const { return static_cast<std::uint32_t>(by_free_.size()) - 1; }
  bool spanned(std::uint32_t host) const { return spanned_[host]; }
  // A job that spans hosts uses this one, or does no longer.
  void set_spanned(std::uint32_t host, bool spanned);
  void take(std::uint32_t host, std::uint32_t slots);
  void give(std::uint32_t host, std::uint32_t slots);
  // A host with the least free slots, at least `slots`; with `unspanned` only one that no spanning job uses. kNoHost if
  // there is none.
  std::uint32_t best_fit(std::uint32_t slots, bool unspanned);

  static constexpr std::uint32_t kNoHost = UINT32_MAX;

 private:
  struct Bucket {
    std::vector<std::uint32_t> heap;  // of hosts, the lowest first; may name some that have left it
  };

  void list(std::uint32_t host);
  std::uint32_t lowest(Bucket& bucket, std::uint32_t free, bool unspanned);

  std::vector<std::uint32_t> free_;
  std::vector<bool> spanned_;
  std::vector<Bucket> by_free_, by_free_spanned_;
};

// Turns the sizes of jobs into slots on hosts, and keeps what can stay where it is.
//
// Rules, in this order. Workers of a job whose size stays do not move (repair.h says when that pays). A job that
// shrinks gives up the hosts on which it has the fewest slots; one that grows takes free slots of its own hosts first.
// A job that is placed anew takes the fewest hosts that hold it, with equal shares (Optimus, EuroSys'18), on those
// hosts that have the least room to spare. At most one job that spans hosts uses a host's network card (CoDDL,
// NSDI'21). A job may ask to stay on one host. Where no hosts hold a job, it gets what one host can give.
//
// Pure, deterministic: ties go to the lower host. Cost: O(jobs log jobs + slots that change hands). Errors: what does
// not fit is not placed; the caller sees it in Placed::slots().

struct Piece {
  std::uint32_t host = 0;
  std::uint32_t slots = 0;
};

struct Job {
  std::uint32_t slots = 0;
  bool one_host = false;
  std::vector<Piece> held;  // where it is now; at most one piece per host
};

struct Placed {
  std::vector<Piece> pieces;
  std::uint32_t slots() const;
};

// `host_slots`: the slots of each host. One result per job, in their order.
std::vector<Placed> place(const std::vector<std::uint32_t>& host_slots, const std::vector<Job>& jobs);

}  // namespace elastictrain::heuristics::placement
