// Purpose: the expected length of a run that does not name one, by its loss, in words. Pure.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace elastictrain::cli {

// One line with its end: the samples at which the loss converges and how far that may be off, or why that is not known.
// Empty without both. `left_s`: until then.
std::string expected_length_text(const std::optional<std::pair<double, double>>& samples, const std::string& why_not,
                                 std::optional<double> left_s = std::nullopt);

}  // namespace elastictrain::cli
