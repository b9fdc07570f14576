// Purpose: the answer to `status` as text: slow workers, the reason for the size, the last events. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace elastictrain::cli {

// `status` has the format described in control_protocol.h. Missing values are shown as "-".
std::string render_status(const nlohmann::json& status);

}  // namespace elastictrain::cli
