// Purpose: the policy "goodput": size and batch by the rate at which the job learns (Pollux, algorithms G).
//
// The model is fitted again every `refit_s` to what has been measured. The size follows AdaptDL's autoscaling: a
// worker's utility is goodput(n) / (n goodput(1)), and the size changes when it leaves the band, to where it is nearest
// the band's middle; at most to twice the largest size seen, as what was not seen is taken to cost nothing. The batch
// is the one of the highest goodput at that size, and the learning rate follows the gain.
#pragma once

#include "heuristics/policy/policy.h"

namespace elastictrain::heuristics {

PolicySpec goodput_policy();

}  // namespace elastictrain::heuristics
