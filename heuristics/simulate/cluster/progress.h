// Purpose: the progress of one simulated job through changes of its slots, under a cost model.
//
// Slots that the job holds may not count yet: each batch of them has a time from which on it does. Progress is settled
// when slots change, not at every look, so that it does not depend on how often somebody looks. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "heuristics/sharing/curve.h"
#include "heuristics/simulate/cluster/cost.h"

namespace elastictrain::heuristics::cluster {

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
