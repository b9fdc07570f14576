// Purpose: a report as one HTML page that needs nothing else: no script, no font, no picture from anywhere. Readable in
// light and dark, on a phone and on paper. Pure. At most about 1 MB, whatever the run.
#pragma once

#include <string>

#include "cli/report/report.h"

namespace elastictrain::cli::run_report {

std::string render_page(const Report& report);

}  // namespace elastictrain::cli::run_report
