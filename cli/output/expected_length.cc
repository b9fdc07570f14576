#include "cli/output/expected_length.h"

#include "cli/output/figures.h"

namespace elastictrain::cli {

std::string expected_length_text(const std::optional<std::pair<double, double>>& samples, const std::string& why_not,
                                 std::optional<double> left_s) {
  if (!samples) return why_not.empty() ? "" : "length: not known by its loss: " + why_not + "\n";
  const std::string left = !left_s ? "" : *left_s > 0 ? ", in " + format_duration(*left_s) : ", which is over";
  return "length, by its loss: converges at " + format_count(samples->first) + " samples ± " +
         format_count(samples->second) + left + "\n";
}

}  // namespace elastictrain::cli
