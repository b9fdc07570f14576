#include "cli/traces/folder.h"

#include <algorithm>

namespace elastictrain::cli {

Result<std::vector<std::filesystem::path>> entries_of(const std::filesystem::path& folder) {
  std::error_code failed;
  std::vector<std::filesystem::path> entries;
  for (std::filesystem::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    entries.push_back(entry->path());
  }
  if (failed) return Error{ErrorCode::kNoInput, folder.string() + ": " + failed.message()};
  std::sort(entries.begin(), entries.end());
  return entries;
}

}  // namespace elastictrain::cli
