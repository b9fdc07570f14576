// Purpose: the letter that ranks compare before a collective operation, and what it means to people. Pure.
#pragma once

#include <string>

#include "train/comm/communicator.h"

namespace elastictrain::comm {

inline constexpr char kShareKind = 's';

char kind_of_sum(Element element);

// " It is … here and … there." Empty: both are the same.
std::string kinds_text(char here, char there);

}  // namespace elastictrain::comm
