// Purpose: policies of equal shares: drf, max-min and themis, and the time slices where jobs outnumber slots.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "heuristics/sharing/policy.h"

// Time slices where there are more jobs than slots: who has had how many, and until when the present one
// lasts.

namespace elastictrain::heuristics::sharing {

struct Turns : State {
  struct Turn {
    std::uint32_t had = 0;
    double until_s = 0;
    bool counted = true;  // the present one, in `had`: once the job holds slots in it
  };
  std::unordered_map<std::uint64_t, Turn> of;  // by job
  std::unique_ptr<State> clone() const override { return std::make_unique<Turns>(*this); }
};

// Jobs within their slice keep what they hold; the others get one slot each while there are any: those first that have
// had the fewest slices, then by first start and arrival. Returns the slots that are left.
std::uint32_t share_by_turns(const View& view, Turns& turns, std::vector<std::uint32_t>& shares);

// Starts slices of the jobs that have slots, and asks for a decision when one ends and others wait.
void start_turns(const View& view, const std::vector<std::uint32_t>& shares, double slice_s, Turns& turns,
                 Decision& decision);

// When the slice of the job at this place ends; 0: nobody waits for its slots.
double turn_end_s(const View& view, const Turns& turns, std::size_t place);

}  // namespace elastictrain::heuristics::sharing
