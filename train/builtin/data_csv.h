// Purpose: labelled rows from comma-separated numbers; the label comes last and is a whole number from 0.
// A first line without any number is a header. Blank lines and a carriage return at the end of a line are ignored.
#pragma once

#include <string_view>

#include "supervisor/protocol/result.h"
#include "train/builtin/dataset.h"

namespace elastictrain::train {

// `name` is the file, for messages.
Result<LabelledRows> parse_csv(std::string_view text, std::string_view name);

}  // namespace elastictrain::train
