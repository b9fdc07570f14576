// Purpose: the answer to `status` as text: state and size, progress, checkpoint, what happened last, what is waited
// for, workers (slowest first), hosts. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/output/table.h"

namespace elastictrain::cli {

// `status` has the format described in control_protocol.h. Missing values are shown as "-".
std::string render_status(const nlohmann::json& status, const Room& room = {});

}  // namespace elastictrain::cli
