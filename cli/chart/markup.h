// Purpose: text and numbers inside SVG and HTML. What programs, hosts and files say is escaped here, so that nothing of
// it becomes markup. Pure.
#pragma once

#include <string>

namespace elastictrain::cli::chart {

std::string escaped(const std::string& text);
std::string number_text(double value, int digits);  // for coordinates; without trailing zeros

}  // namespace elastictrain::cli::chart
