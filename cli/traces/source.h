// Purpose: trace files and folders: their entries, and their text, plain, compressed or in an archive.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "supervisor/protocol/result.h"

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

}  // namespace elastictrain::cli
