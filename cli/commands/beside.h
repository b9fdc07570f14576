// Purpose: what the commands beside a run share: finding the run, asking it, saying what is wrong.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "supervisor/protocol/result.h"

namespace elastictrain::cli {

// Directory of the named run, or of the only one that lives. The error lists the runs when there are several.
Result<std::string> find_live_run(const std::string& name);

// The same for a run that may have ended: the newest journal when no name is given and none lives.
Result<std::string> find_run(const std::string& name);

// The answer's object, checked to be {"ok":true,…}; kRefused with the run's own words where it said no.
Result<nlohmann::json> ask_run(const std::string& directory, const nlohmann::json& request);

// Prints the answer's text, or the error; the exit status.
int ask_and_print(const std::string& run_name, const nlohmann::json& request);

// One line on standard error and the exit status that fits the error.
int complain(std::string_view command, const Error& error);

}  // namespace elastictrain::cli
