// Purpose: converts values of configuration keys to RunConfig and back to text. Pure.
//
// Errors: kInvalid. Messages do not name the place a value came from; the caller adds it (file:line:col, flag,
// environment variable).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cli/config/schema.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::cli {

// A value as a file, a flag or the environment gives it, before it is checked against the key.
using Value = std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>>;

// The shortest text that reads back as the same number, without an exponent where that is usual.
std::string number_text(double value);

// "a whole number of milliseconds from 1 to 3600000".
std::string describe_type(const KeySpec& key);

Status assign(RunConfig& config, const KeySpec& key, const Value& value);

// The same for a value typed as text (flag, environment, --set).
Status assign_text(RunConfig& config, const KeySpec& key, std::string_view text);

// The value as a user would type it; a list joined with commas.
std::string render_value(const RunConfig& config, const KeySpec& key);

}  // namespace elastictrain::cli
