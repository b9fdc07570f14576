// Purpose: files of a directory that appear under their name only when they are complete and on the disk.
//
// Failure: an Error with the file's name and the system's message. An unpublished file leaves nothing behind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "train/checkpoint/target.h"

namespace elastictrain::checkpoint {

class File {
 public:
  File() = default;
  explicit File(int fd) : fd_(fd) {}
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();
  bool valid() const { return fd_ >= 0; }
  int fd() const { return fd_; }

 private:
  int fd_ = -1;
};

Error system_error(const std::string& path, const char* operation, int error_number);

// Memory, lengths and offsets with this alignment are written to the disk without the page cache.
inline constexpr std::size_t kDirectAlignment = 4096;

// The files of a directory, which need not exist. A file appears under its name when it is complete and on the disk.
// Aligned data bypasses the page cache if the file system supports it: a copy of a large state in the cache would cost
// training CPU time and evict cached files of others.
std::unique_ptr<Target> make_directory_target(std::string directory);

}  // namespace elastictrain::checkpoint
