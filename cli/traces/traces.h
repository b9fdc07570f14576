// Purpose: trace files and folders as the simulator takes them: plain, compressed or in an archive; read, checked,
// sorted, with their curves.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "heuristics/simulate/cluster/trace.h"
#include "supervisor/protocol/result.h"

// Trace files and folders: their entries, and their text, plain, compressed or in an archive.

// Lists the entries of a folder of tables, ordered by name.

namespace elastictrain::cli {

// Errors: kNoInput, with the folder and why it cannot be read.
Result<std::vector<std::filesystem::path>> entries_of(const std::filesystem::path& folder);

// The text of trace files: plain, gzip, and the .csv members of a tar archive. Bounded in memory.
//
// Errors: kNoInput if there is no such file, kInvalid for what cannot be read as it claims to be.

inline constexpr std::size_t kMaxTraceBytes = std::size_t{512} << 20;

struct TraceText {
  std::string path;  // as messages name it: "traces.tar.gz:cluster01.csv"
  std::string name;  // without folders and endings
  std::string text;
};

// A directory stands for its file jobs.csv. `path` may name one member of an archive: "ARCHIVE:MEMBER".
Result<std::vector<TraceText>> read_trace_texts(const std::string& path);
Result<std::string> read_bounded(const std::string& path);

// Trace files as the simulator takes them: read, checked, sorted, with their curves.
//
// Errors: kInvalid with file:line:column, kNoInput if a file is not there.

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
