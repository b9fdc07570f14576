// Purpose: labelled rows from a pair of IDX files, the format of the MNIST family: a magic number, one big-endian size
// per dimension, then unsigned bytes. The first dimension of the images is their number; the others form a row.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "supervisor/protocol/result.h"
#include "train/builtin/dataset.h"

namespace elastictrain::train {

struct NamedBytes {
  std::string_view bytes;
  std::string_view name;  // the file, for messages
};

Result<LabelledRows> parse_idx(NamedBytes images, NamedBytes labels);

// "train-images-idx3-ubyte" -> "train-labels-idx1-ubyte"; nullopt if the name does not contain "images".
std::optional<std::string> idx_labels_path(const std::string& images_path);

}  // namespace elastictrain::train
