// Purpose: what a run looks like in one line, for the bottom of a terminal or a log. Pure: figures in, text out.
#pragma once

#include <cstddef>
#include <string>

#include "supervisor/supervisor.h"

namespace elastictrain::cli {

// Fits `width` columns: what matters less goes first, then the line is cut.
std::string render_progress(const RunFigures& figures, std::size_t width);

// The same with everything, for a log.
std::string render_progress_plain(const RunFigures& figures);

}  // namespace elastictrain::cli
