// Purpose: the steps in which gradient norms are measured: every 16th, and more of the first thousand: each up to step
// 128, then every second, fourth and eighth, half as many with each doubling. Early gradients change fast, and a policy
// that follows their noise has little to go by. A worker that trains alone is asked for halves of its batch, which cost
// its program more than a norm: it is in every 16th step from the first on.
//
// All workers derive it from the number of the step. Pure.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "supervisor/protocol/ids.h"

namespace elastictrain::session {

inline constexpr Step kStepsWithAllNorms = 128;
inline constexpr Step kMaxNormInterval = 16;  // steps

// `number` is that of the step, from 1 on.
constexpr bool measures_norms(Step number, std::uint32_t world_size) {
  const Step before = number - 1;
  const Step interval = std::min(std::bit_ceil(before / kStepsWithAllNorms + 1), kMaxNormInterval);
  return before % (world_size == 1 ? kMaxNormInterval : interval) == 0;
}

}  // namespace elastictrain::session
