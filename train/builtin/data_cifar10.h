// Purpose: labelled rows from CIFAR-10's binary version: records of one label byte (0 to 9) and 3,072 pixel bytes.
#pragma once

#include <string_view>

#include "supervisor/protocol/result.h"
#include "train/builtin/dataset.h"

namespace elastictrain::train {

inline constexpr std::size_t kCifar10PixelBytes = 3072;
inline constexpr std::size_t kCifar10RecordBytes = kCifar10PixelBytes + 1;

Result<LabelledRows> parse_cifar10(std::string_view bytes, std::string_view name);

}  // namespace elastictrain::train
