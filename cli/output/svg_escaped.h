// Purpose: text of files and hosts inside an SVG: the characters that mean something there are escaped, control
// characters become spaces. Pure.
#pragma once

#include <string>

namespace elastictrain::cli {

std::string svg_escaped(const std::string& text);

}  // namespace elastictrain::cli
