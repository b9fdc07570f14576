// Purpose: the state of a run in one line, for the bottom of a terminal or a log. Pure: figures in, text out.
#pragma once

#include <cstddef>
#include <string>

#include "supervisor/control/run_figures.h"

namespace elastictrain::cli {

// Fits `width` columns: less important parts are removed first, then the line is cut.
std::string render_progress(const RunFigures& figures, std::size_t width);

// The same with all parts, for a log.
std::string render_progress_plain(const RunFigures& figures);

}  // namespace elastictrain::cli
