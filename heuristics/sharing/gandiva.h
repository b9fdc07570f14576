// Purpose: policy "gandiva" (OSDI'18), with the packing of two jobs into the same slots.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "heuristics/sharing/view.h"

// Two jobs in the same slots, for policies that pack: which pair is tried, and whether it is kept.
//
// After Gandiva (OSDI'18): only where jobs wait. A pair is two jobs of one size of which both were measured alone; the
// guest waits, its host has slots. At each look, after kLookViews new measurements of both, the sum of their speeds
// relative to those alone is compared with 1, which is what taking turns gives. kLosses looks in a row below it undo
// the pair for ever; kLooks looks without that keep it, and it is looked at on. Gandiva tries the pair of the least
// utilisation first; here no utilisation is known, so the jobs go first that have lost the least often, and one
// that has lost with kTries others is taken to use its slots well, and stays alone. A pair that the
// caller never carried out counts as one that lost; one that it carries out no longer may be tried again.
//
// Pure. A decision costs O(jobs log jobs + waiting jobs x hosts that can be tried).

namespace elastictrain::heuristics::sharing {

inline constexpr std::uint32_t kLookViews = 3;
inline constexpr std::uint32_t kLosses = 2;
inline constexpr std::uint32_t kLooks = 3;
inline constexpr std::uint32_t kTries = 3;

class Pairs {
 public:
  struct Pair {
    std::uint64_t host = kNoJob;
    std::uint64_t guest = kNoJob;
    std::uint32_t host_views = 0, guest_views = 0;  // at the last look
    std::uint32_t looks = 0;
    std::uint32_t losses = 0;  // in a row
    double together = 0;       // of the last look; 0: there was none
    bool granted = false;      // by the last decision
    bool assigned = false;     // the caller has carried it out
  };

  // Compares the pairs' speeds, drops those that have ended, undoes those that lose. Pairs that the view has are taken
  // up.
  void look(const View& view);
  bool is_guest(std::uint64_t job) const { return guests_.contains(job); }
  // Grants each guest the slots of its host; `free`: what is left, of which guests take their own if nobody waits.
  void grant(const View& view, bool waiting, std::uint32_t& free, Decision& decision);
  // Tries pairs of jobs that have no slots, in this order, with those that keep theirs.
  void add(const View& view, const std::vector<std::uint32_t>& order, Decision& decision);
  // Says of what was undone, why.
  void explain(Decision& decision) const;
  bool any() const { return !pairs_.empty(); }
  const std::vector<Pair>& pairs() const { return pairs_; }

 private:
  using Key = std::pair<std::uint64_t, std::uint64_t>;
  struct Undone {
    Pair pair;
    std::uint32_t host = 0, guest = 0;  // places
  };

  bool has_lost(std::uint64_t a, std::uint64_t b) const { return lost_.contains(std::minmax(a, b)); }
  std::uint32_t losses_of(std::uint64_t job) const;
  bool may_be_tried(const JobView& job) const;
  void take_up(const View& view);
  void forget_gone();
  enum class Verdict : std::uint8_t { kStays, kParts, kLoses };
  Verdict judge(const View& view, Pair& pair);
  void undo(const Pair& pair);
  void list_guests();
  std::vector<std::uint32_t> open_hosts(const View& view, const std::vector<std::uint32_t>& order,
                                        const Decision& decision) const;
  std::vector<std::uint32_t>::iterator best_host(const View& view, const JobView& guest,
                                                 std::vector<std::uint32_t>& hosts) const;

  std::vector<Pair> pairs_;
  std::set<std::uint64_t> guests_, hosts_;
  std::set<Key> lost_;
  std::unordered_map<std::uint64_t, std::uint32_t> losses_;  // by job
  std::vector<Undone> undone_;                               // by the present decision
  std::unordered_map<std::uint64_t, std::uint32_t> place_;   // by job, of the present view
};

}  // namespace elastictrain::heuristics::sharing
