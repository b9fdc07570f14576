// Purpose: loads the data that the options name into memory: files, format, and one scale for training and held-out
// rows.
//
// Failure: kUnavailable if a file cannot be read, kInvalid if its content is wrong. The message names file and line or
// offset.
#pragma once

#include <string>
#include <string_view>

#include "supervisor/protocol/result.h"
#include "train/builtin/dataset.h"
#include "train/builtin/options.h"

namespace elastictrain::train {

// The detected format of a file: IDX by its magic number, CIFAR-10 by the ending ".bin", otherwise CSV.
DataFormat guess_format(std::string_view bytes, std::string_view path);

Result<LabelledTask> load_labelled_task(const TrainerOptions& options);
Result<TextTask> load_text_task(const TrainerOptions& options);

}  // namespace elastictrain::train
