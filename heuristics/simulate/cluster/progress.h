// Purpose: the progress of one simulated job through changes of its slots, and the cost of a change.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heuristics/sharing/curve.h"

// The cost of a change of a job's slots in a simulation.
//
// - none: nothing.
// - swap: nobody waits. Slots that are taken away stop to count at once, new ones count `start_s` later (a worker's
//   start). A suspended job comes back after 1 s.
// - restart: a job whose slots change makes no progress for `start_s`; so does one that starts.
// - muri: the simulator of Muri (SIGCOMM'22): iteration times x 1.015; between two events a running job that does not
//   end there makes progress for the time less its start overhead, at least 0, and its end is foreseen without it.
// Pure.

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

// The progress of one simulated job through changes of its slots, under a cost model.
//
// Slots that the job holds may not count yet: each batch of them has a time from which on it does. Progress is settled
// when slots change, not at every look, so that it does not depend on how often somebody looks. Pure.

class Progress {
 public:
  // `as_is`: the job runs at its requested size on the curve as it is.
  Progress(const sharing::Curve& curve, bool as_is, double work) : curve_(&curve), as_is_(as_is), work_(work) {}

  void set_slots(double now_s, double slots, const Cost& cost);
  // `speed`: 1 is the curve's.
  void set_speed(double now_s, double speed);
  // As muri counts: everything since the last event, less the overhead.
  void charge(double now_s, double overhead_s);
  double remaining(double now_s) const;
  // Infinite without slots.
  double end_s() const;
  // From when on all its slots count; now, if they do.
  double ready_s(double now_s) const { return soon_.empty() ? now_s : soon_.back().ready_s; }

 private:
  struct Batch {
    double ready_s = 0;
    double slots = 0;
  };

  double rate(double slots) const;
  void settle(double now_s);
  void take(double slots);
  void add(double now_s, double slots, const Cost& cost);

  const sharing::Curve* curve_;
  bool as_is_;
  bool started_ = false;
  double slowdown_ = 1;
  double speed_ = 1;
  double work_;  // left at since_s_
  double since_s_ = 0;
  double held_ = 0;
  double counting_ = 0;      // of the held ones
  std::vector<Batch> soon_;  // the others, by time
};

}  // namespace elastictrain::heuristics::cluster
