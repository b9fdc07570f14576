// Purpose: lists the entries of a folder of tables, ordered by name.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "supervisor/protocol/result.h"

namespace elastictrain::cli {

// Errors: kNoInput, with the folder and why it cannot be read.
Result<std::vector<std::filesystem::path>> entries_of(const std::filesystem::path& folder);

}  // namespace elastictrain::cli
