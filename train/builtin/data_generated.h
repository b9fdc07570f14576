// Purpose: a data set that needs no files: ten classes of noisy points. Every class has several centres, so that a
// linear model gets it wrong often and a small multi-layer perceptron learns it to about 98 %.
#pragma once

#include <cstdint>

#include "train/builtin/dataset.h"

namespace elastictrain::train {

// The same for the same arguments on every host. A quarter as many rows are held out.
LabelledTask generate_task(std::uint64_t samples, std::uint64_t seed);

}  // namespace elastictrain::train
