// Purpose: words as a shell would need them. For display only: nothing passes this text to a shell. Pure.
#pragma once

#include <string>
#include <vector>

namespace elastictrain::cli {

std::string shell_text(const std::vector<std::string>& words);

}  // namespace elastictrain::cli
