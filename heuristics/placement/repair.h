// Purpose: moves of jobs between hosts that pay although the jobs' sizes stay (Gandiva, OSDI'18, section 4.3, moves
// jobs against fragmentation, too; the rule is our own).
//
// Two things are repaired. *Gather*: a job that spans hosts fits on fewer of them; it then trains faster, by what was
// measured at both numbers of hosts, or else by kHopedGain. *Make room*: a job waits for slots of one host, enough are
// free on several; jobs of one host move to the others. Workers move only onto free slots, so that nobody waits for
// anybody: the successor starts beside the worker that it takes over from.
//
//   gain  = slots x left_s x (1 - before / after)       gather: slot-seconds that the job is done earlier
//         = slots of the one that waits x wait_s        make room: until enough of a host would be free by itself
//   price = workers that move x start_s + slots x step_s
//
// A repair is worth it if its gain is at least kLeastReturn times its price. At most one is returned, that with the
// most gain over its price; a job that spans hosts moves only to hosts that no other such job uses (CoDDL, NSDI'21).
//
// Pure, deterministic: ties go to the earlier job and the lower host. Cost: O(jobs that span hosts or move x hosts).
// Errors: none; nothing is returned where nothing pays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "heuristics/placement/placement.h"

namespace elastictrain::heuristics::placement {

inline constexpr double kHopedGain = 0.05;   // of the speed of a job, with fewer hosts than it was measured on
inline constexpr double kLeastReturn = 2.0;  // of the gain over the price

// How long a job stays where it is after a change: ten starts of a worker, so that moves cost a tenth at most.
double rest_s(double start_s);

// A job that has slots, and keeps as many.
struct Resident {
  std::vector<Piece> held;               // at most one piece per host
  std::vector<bool> may_use;             // by host; empty: every host
  bool may_move = false;                 // now
  double left_s = 0;                     // that it still trains
  double start_s = 0;                    // of a new worker
  double step_s = 0;                     // that each of its slots loses with a move
  std::map<std::uint32_t, double> rate;  // at its present size, by the number of hosts, where it was measured
};

// A job that has none, and waits for so many of one host.
struct Seeker {
  std::uint32_t slots = 0;
  std::vector<bool> may_use;  // by host; empty: every host
};

struct Move {
  std::size_t job = 0;  // its place among the residents
  std::vector<Piece> to;
};

struct Repair {
  std::vector<Move> moves;        // all or none; empty: nothing pays
  std::size_t seeker = SIZE_MAX;  // for whom room is made; SIZE_MAX: the job is gathered
  double gain_slot_s = 0;
  double price_slot_s = 0;
};

// `free`: by host, slots that nobody has or is meant to have.
Repair find_repair(const std::vector<std::uint32_t>& free, const std::vector<Resident>& residents,
                   const std::vector<Seeker>& seekers);

}  // namespace elastictrain::heuristics::placement
