// Purpose: files that appear under their name only when they are complete and on the disk.
//
// Failure: an Error with the file's name and the system's message. An unpublished file leaves nothing behind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "supervisor/protocol/result.h"

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

// A file to read: its size, and its bytes from the start. Only regular files can be opened.
class Reading {
 public:
  static Result<Reading> open(const std::string& path);
  std::uint64_t size() const { return size_; }
  Status read(std::span<std::byte> bytes);

 private:
  std::string path_;
  File file_;
  std::uint64_t size_ = 0;
};

// Reads at most `max` bytes; a longer file is an error.
Result<std::vector<std::byte>> read_whole(const std::string& path, std::size_t max);

// Memory, lengths and offsets with this alignment are written to the disk without the page cache.
inline constexpr std::size_t kDirectAlignment = 4096;

// Call write() … sync(), then publish(). Without publish() the file is removed. Aligned data bypasses the page cache if
// the file system supports it: a copy of a large state in the cache would cost training CPU time and evict cached files
// of others.
class NewFile {
 public:
  static Result<NewFile> create(const std::string& directory, const std::string& name, const std::string& temporary);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();
  Status write(std::span<const std::byte> bytes);
  Status sync();
  Status publish();

 private:
  NewFile(std::string path, std::string temporary, File file);
  void choose_direct(std::span<const std::byte> bytes);
  void set_direct(bool wanted);
  std::string path_;
  std::string temporary_;  // path; empty once it is published or removed
  File file_;
  std::uint64_t offset_ = 0;
  bool direct_ = false;
  bool can_direct_ = true;
};

Status make_directory(const std::string& directory);
// Makes the names in it durable. It is not an error if the file system does not support it.
void sync_directory(const std::string& directory);

}  // namespace elastictrain::checkpoint
