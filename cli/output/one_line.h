// Purpose: the texts of a run's or a cluster's answer, which may come from programs, hosts and other users, for tables:
// none of them can make a line of its own. Pure.
#pragma once

#include <nlohmann/json.hpp>

namespace elastictrain::cli {

// With the line ends and tabs of every text made visible, at any depth up to that of an answer.
nlohmann::json in_one_line(nlohmann::json value);

}  // namespace elastictrain::cli
