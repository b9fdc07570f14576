// Purpose: runs of this user, as the commands meet them: finds them by name, describes live and ended ones, sends
// requests to a live one, and reports errors.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/output/status_text.h"
#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/result.h"
#include "supervisor/run_record.h"

// Describes a run that has ended, from the journal and the record that it left.
// Reads the run's directory. Thread: any. Errors: values that name the file.

namespace elastictrain::cli {

Result<std::string> summary_of_ended(const std::string& directory, const RunRecord& record);

// "run NAME has ended: WHY (status 0), 2m 05s ago (2026-01-31T14:03:05)". The record has an end.
std::string how_it_ended(const RunRecord& record);

// Finds and describes every run of this user on this machine: live ones by asking them, others from their
// directory. Reads the state directory. Thread: any; waits for each live run, with a limit. Errors: a run that cannot
// be read is listed as such.

// Sorted: live ones first, then the newest first.
Result<std::vector<ListedRun>> known_runs();

// The one in this directory.
ListedRun run_in(const std::string& directory);

// The names alone, sorted; no run is asked.
std::vector<std::string> run_names(const std::string& state_directory);

// For a name that no run has: "; did you mean NAME?", or nothing.
std::string meant_run(const std::string& name, const std::string& state_directory);

// Shared by the client commands: find the run, send it a request, report an error.

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
