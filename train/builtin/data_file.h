// Purpose: reads whole files as bytes, and formats errors with the position in the file. Parsers take bytes and a name
// for messages, so that tests need no files.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "supervisor/protocol/result.h"

namespace elastictrain::train {

// A regular file that can be read and is not empty; kUnavailable otherwise.
Result<std::string> read_file(const std::string& path);

// "a.csv,b.csv" as paths.
std::vector<std::string> split_paths(std::string_view paths);

// "name:line: what"
Error error_at_line(std::string_view name, std::size_t line, std::string_view what);
// "name: offset N: what"
Error error_at_offset(std::string_view name, std::size_t offset, std::string_view what);

}  // namespace elastictrain::train
