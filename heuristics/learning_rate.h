// Purpose: the factor of the user's learning rate when the global batch differs from the one that the rate was chosen
// for.
//
// Pure: no clock, no I/O, no state.
#pragma once

#include <cstdint>

namespace elastictrain::heuristics {

enum class LearningRateRule : std::uint8_t { kNone, kLinear, kSqrt, kAdaScale };

// The progress of one step of `batch` in steps of `base_batch` (AdaScale; AdaptDL, algorithms G): with S = batch / base
// it is (var + sqr) / (var / S + sqr), var being the noise of a gradient of base_batch samples. In terms of the noise
// scale:
// (noise_scale / base + 1) / (noise_scale / batch + 1). Between 1 (no noise) and S (only noise).
double adascale_gain(double noise_scale, double batch, double base_batch);

// kNone: 1. kLinear: batch / base. kSqrt: its square root. kAdaScale: the gain above; 1 while the noise scale is
// unknown (0), so a larger batch is no risk before it has been measured. An unknown (zero) batch gives 1.
double learning_rate_factor(LearningRateRule rule, std::uint64_t batch, std::uint64_t base_batch,
                            double noise_scale = 0);

}  // namespace elastictrain::heuristics
