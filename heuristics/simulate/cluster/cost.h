// Purpose: the cost of a change of a job's slots in a simulation.
//
// - none: nothing.
// - swap: nobody waits. Slots that are taken away stop to count at once, new ones count `start_s` later (a worker's
//   start). A suspended job comes back after 1 s.
// - restart: a job whose slots change makes no progress for `start_s`; so does one that starts.
// - muri: the simulator of Muri (SIGCOMM'22): iteration times x 1.015; between two events a running job that does not
//   end there makes progress for the time less its start overhead, at least 0, and its end is foreseen without it.
// Pure.
#pragma once

#include <cstdint>
#include <string>

namespace elastictrain::heuristics::cluster {

inline constexpr double kSwapStart_s = 10;
inline constexpr double kRestartStart_s = 30;
inline constexpr double kResume_s = 1;
inline constexpr double kMuriSlowdown = 1.015;

struct Cost {
  enum class Kind { kNone, kSwap, kRestart, kMuri };
  Kind kind = Kind::kNone;
  double start_s = 0;
};

// Muri's start overhead. Below 0: the model is not in its table.
double muri_overhead_s(const std::string& model, std::uint32_t slots);

}  // namespace elastictrain::heuristics::cluster
