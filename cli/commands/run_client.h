// Purpose: shared by the client commands: find the run, send it a request, report an error.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::cli {

// Directory of the named run, or of the only live run. When there are several, the error lists them.
Result<std::string> find_live_run(const std::string& name);

// The same for a run that may have ended. Without a name and without a live run: the run with the newest journal.
Result<std::string> find_run(const std::string& name);

// The answer's object, checked to be {"ok":true,…}. kRefused with the run's own message if it refused.
Result<nlohmann::json> ask_run(const std::string& directory, const nlohmann::json& request,
                               Millis timeout = Millis(10'000));

// Prints the answer's text, or the error; for a host that the run does not have, which one was probably meant. Returns
// the exit status.
int ask_and_print(const std::string& run_name, const nlohmann::json& request);

// Prints one line on standard error. Returns the exit status that fits the error.
int complain(std::string_view command, const Error& error);
int status_of_refusal(const Error& error);

// Its workers may still train.
Error lost_supervisor(const std::string& name);

}  // namespace elastictrain::cli
