// Purpose: a log file that is rotated when it grows too large: w3.log, then w3.1.log (newest) to w3.N.log (oldest). For
// the output of one worker as it is, or for messages with time and level.
//
// Each line is in the file when append() returns, so that a killed command loses none. A disk that is full or gone is
// an error of append(); the caller reports it once and stops writing. Children do not inherit the descriptor.
//
// Ownership: the open file. Thread: one at a time. Errors: kIo, with the path.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "supervisor/protocol/result.h"

namespace elastictrain::cli {

enum class LogLevel : std::uint8_t { kInfo, kWarning, kError };

class LogFile {
 public:
  enum class Form : std::uint8_t { kPlain, kDated };

  struct Limits {
    std::uint64_t max_bytes = 0;  // 0: no limit
    std::uint64_t keep = 0;       // rotated files to keep; 0: none
    Form form = Form::kPlain;
    bool owner_only = false;  // nobody else may read the files
  };

  // Creates missing directories. A file that exists is continued.
  static Result<LogFile> open(const std::string& path, Limits limits);
  ~LogFile();
  LogFile(LogFile&& other) noexcept;
  LogFile& operator=(LogFile&& other) noexcept;

  // `line` is without its end. The level is shown in dated files only.
  Status append(std::string_view line, LogLevel level = LogLevel::kInfo);

 private:
  struct Sink;
  explicit LogFile(std::unique_ptr<Sink> sink);

  std::unique_ptr<Sink> sink_;
};

}  // namespace elastictrain::cli
