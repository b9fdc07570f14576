// Purpose: a JSON schema (draft 7) of the configuration, for editors, from the one table of keys. Pure.
#pragma once

#include <string>

namespace elastictrain::cli {

std::string render_config_schema();

}  // namespace elastictrain::cli
