// Purpose: the two parts of a job's steps, computation and the rest (communication and waiting), and whether a change
// of speed has changed both alike. If it has, the machines became slower or faster and every size with them; if not,
// the job scales in another way than before.
//
// Pure. Seconds of one step, means over the workers.
#pragma once

#include "heuristics/policy/view.h"

namespace elastictrain::heuristics {

class StepParts {
 public:
  // The members' figures since the last view, if they have any.
  void add(const JobView& job);
  void clear() { *this = StepParts(); }

  double steps() const { return steps_; }
  bool is_known() const { return steps_ > 0 && compute_s_ > 0 && compute_s_ < step_s_; }
  double compute_s() const { return compute_s_; }
  double rest_s() const { return step_s_ - compute_s_; }
  bool has_compute() const { return steps_ > 0 && compute_s_ > 0; }
  double rest_share() const { return compute_s_ < step_s_ ? 1 - compute_s_ / step_s_ : 0; }  // of a step

 private:
  double steps_ = 0;
  double step_s_ = 0;
  double compute_s_ = 0;
};

// By how much less or more a step with other parts than these would have changed, at most (a difference of logarithms):
// 0 where both parts changed by the same factor, or where one of them hardly counts. Infinite if a part is not known.
double unevenness(const StepParts& before, const StepParts& after);

}  // namespace elastictrain::heuristics
