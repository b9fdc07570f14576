// Purpose: the policy "goodput": size and batch by the rate at which the job learns (Pollux, algorithms G).
//
// The model is fitted again every `refit_s`. The size follows AdaptDL's autoscaling: a worker's utility is
// goodput(n) / (n goodput(1)). When it leaves the band, the size changes to the one nearest the band's middle, but at
// most to twice the largest size seen, because the model predicts no cost for what was not seen. The batch is the one
// with the highest goodput at that size, and the learning rate follows the gain.
#pragma once

#include "heuristics/policy/policy.h"

namespace elastictrain::heuristics {

PolicySpec goodput_policy();

}  // namespace elastictrain::heuristics
