// Purpose: turns the sizes of jobs into slots on hosts, and keeps what can stay where it is.
//
// Rules, in this order. Workers of a job whose size stays do not move (repair.h says when that pays). A job that
// shrinks gives up the hosts on which it has the fewest slots; one that grows takes free slots of its own hosts first.
// A job that is placed anew takes the fewest hosts that hold it, with equal shares (Optimus, EuroSys'18), on those
// hosts that have the least room to spare. At most one job that spans hosts uses a host's network card (CoDDL,
// NSDI'21). A job may ask to stay on one host. Where no hosts hold a job, it gets what one host can give.
//
// Pure, deterministic: ties go to the lower host. Cost: O(jobs log jobs + slots that change hands). Errors: what does
// not fit is not placed; the caller sees it in Placed::slots().
#pragma once

#include <cstdint>
#include <vector>

namespace elastictrain::heuristics::placement {

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
