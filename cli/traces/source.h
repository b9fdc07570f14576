// Purpose: the text of trace files: plain, gzip, and the .csv members of a tar archive. Bounded in memory.
//
// Errors: kNoInput if there is no such file, kInvalid for what cannot be read as it claims to be.
#pragma once

#include <string>
#include <vector>

#include "supervisor/protocol/result.h"

namespace elastictrain::cli {

inline constexpr std::size_t kMaxTraceBytes = std::size_t{512} << 20;

struct TraceText {
  std::string path;  // as messages name it: "traces.tar.gz:cluster01.csv"
  std::string name;  // without folders and endings
  std::string text;
};

// A directory stands for its file jobs.csv. `path` may name one member of an archive: "ARCHIVE:MEMBER".
Result<std::vector<TraceText>> read_trace_texts(const std::string& path);
Result<std::string> read_bounded(const std::string& path);

}  // namespace elastictrain::cli
