// Purpose: the report of a run from its journal, as a page in a file. Reads and writes files. Thread: any. Errors:
// values that name the file.
#pragma once

#include <string>
#include <vector>

#include "supervisor/protocol/result.h"

namespace elastictrain::cli::run_report {

// The page. `directory`: the run's. `typed`: its command line, if that is known.
Result<std::string> page_of(const std::string& directory, const std::vector<std::string>& typed);

// A file that was there stays until the new one is complete. Its directory is made if it is missing.
Status write_page(const std::string& page, const std::string& path);

}  // namespace elastictrain::cli::run_report
