// Purpose: trace files as the simulator takes them: read, checked, sorted, with their curves.
//
// Errors: kInvalid with file:line:column, kNoInput if a file is not there.
#pragma once

#include <string>
#include <vector>

#include "heuristics/simulate/cluster/trace.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::cli {

struct TraceOptions {
  std::vector<std::string> curves;  // files and directories, beside those found next to a trace
  std::vector<std::string> vcs;     // one trace for each of these; empty: all jobs of a file
  std::string format;               // empty: by the header
  double time_scale = 1;            // all times are divided by it
  bool merge = false;               // all files are one trace
  std::size_t limit = 0;            // the first so many jobs; 0: all
};

struct LoadedTraces {
  struct One {
    heuristics::cluster::Trace trace;
    double demand_slots = 0;  // sum(duration x slots asked for) / (last - first arrival); 0: all arrive at once
  };
  std::vector<One> traces;
  std::vector<std::string> notes;  // for the user: what was corrected
};

// Names for TraceOptions::format.
const std::vector<std::string>& trace_format_names();

Result<LoadedTraces> load_traces(const std::vector<std::string>& paths, const TraceOptions& options);

}  // namespace elastictrain::cli
