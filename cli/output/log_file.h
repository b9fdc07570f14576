// Purpose: a worker's output in a file of its own, rotated when it grows too large: w3.log, w3.log.1 (newest) to
// w3.log.N (oldest).
//
// Ownership: the descriptor. Thread: one at a time. Errors: open() returns the reason; append() reports a full disk
// once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "supervisor/protocol/result.h"

namespace elastictrain::cli {

class LogFile {
 public:
  struct Limits {
    std::uint64_t max_bytes = 0;  // 0: no limit
    std::uint64_t keep = 0;       // older files; 0: a rotated file is deleted
  };

  static Result<LogFile> open(std::string path, Limits limits);
  ~LogFile();
  LogFile(LogFile&& other) noexcept;
  LogFile& operator=(LogFile&& other) noexcept;

  Status append(std::string_view line);  // without its newline
  const std::string& path() const { return path_; }

 private:
  LogFile(std::string path, Limits limits) : path_(std::move(path)), limits_(limits) {}
  Status reopen(bool truncate);
  Status rotate();
  void close();

  std::string path_;
  Limits limits_;
  int descriptor_ = -1;
  std::uint64_t size_bytes_ = 0;
};

}  // namespace elastictrain::cli
