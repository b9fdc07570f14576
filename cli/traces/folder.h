// Purpose: what lies in a folder of tables, in the order of the names.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "supervisor/protocol/result.h"

namespace elastictrain::cli {

// Errors: kNoInput, with the folder and why it cannot be read.
Result<std::vector<std::filesystem::path>> entries_of(const std::filesystem::path& folder);

}  // namespace elastictrain::cli
