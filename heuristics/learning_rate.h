// Purpose: by how much the user's learning rate is multiplied when the global batch differs from the one it was chosen
// for.
//
// Pure: no clock, no I/O, no state.
#pragma once

#include <cstdint>

namespace elastictrain::heuristics {

enum class LearningRateRule : std::uint8_t { kNone, kLinear, kSqrt };

// kNone: 1. kLinear: batch / base. kSqrt: its square root. An unknown (zero) batch gives 1.
double learning_rate_factor(LearningRateRule rule, std::uint64_t batch, std::uint64_t base_batch);

}  // namespace elastictrain::heuristics
