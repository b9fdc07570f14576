// Purpose: the answer to `status` as people read it: who is slow, why the run has this size, what happened last. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace elastictrain::cli {

// `status` as control_protocol.h describes it; what is missing is shown as "-".
std::string render_status(const nlohmann::json& status);

}  // namespace elastictrain::cli
