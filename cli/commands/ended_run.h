// Purpose: the summary of a run that has ended, from the journal and the record that it left.
// Reads the run's directory. Thread: any. Errors: values that name the file.
#pragma once

#include <string>

#include "supervisor/protocol/result.h"
#include "supervisor/run_record.h"

namespace elastictrain::cli {

Result<std::string> summary_of_ended(const std::string& directory, const RunRecord& record);

}  // namespace elastictrain::cli
