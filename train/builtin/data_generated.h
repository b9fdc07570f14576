// Purpose: a data set that needs no files: ten classes of noisy points. Every class has several centres, so that a
// linear model is often wrong and a small multi-layer perceptron reaches about 98 %.
#pragma once

#include <cstdint>

#include "train/builtin/dataset.h"

namespace elastictrain::train {

// The same for the same arguments on every host. The held-out rows are a quarter as many.
LabelledTask generate_task(std::uint64_t samples, std::uint64_t seed);

}  // namespace elastictrain::train
