#include "cli/output/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace elastictrain::cli {
namespace {

Error io_error(const std::string& path, const char* what) {
  return {ErrorCode::kIo, path + ": " + what + ": " + std::strerror(errno)};
}

std::string numbered(const std::string& path, std::uint64_t number) {
  return path + "." + std::to_string(number);
}

}  // namespace

Result<LogFile> LogFile::open(std::string path, Limits limits) {
  LogFile file(std::move(path), limits);
  if (Status opened = file.reopen(false); !opened.ok()) return opened.error();
  return file;
}

LogFile::~LogFile() {
  close();
}

LogFile::LogFile(LogFile&& other) noexcept
    : path_(std::move(other.path_)),
      limits_(other.limits_),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_bytes_(other.size_bytes_) {}

LogFile& LogFile::operator=(LogFile&& other) noexcept {
  if (this == &other) return *this;
  close();
  path_ = std::move(other.path_);
  limits_ = other.limits_;
  descriptor_ = std::exchange(other.descriptor_, -1);
  size_bytes_ = other.size_bytes_;
  return *this;
}

void LogFile::close() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

Status LogFile::reopen(bool truncate) {
  close();
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (truncate ? O_TRUNC : 0);
  descriptor_ = ::open(path_.c_str(), flags, 0644);
  if (descriptor_ < 0) return io_error(path_, "cannot be opened");
  struct stat info {};
  size_bytes_ = fstat(descriptor_, &info) == 0 ? static_cast<std::uint64_t>(info.st_size) : 0;
  return {};
}

Status LogFile::rotate() {
  if (limits_.keep == 0) return reopen(true);
  for (std::uint64_t number = limits_.keep; number > 1; --number) {
    // A missing file with this number is not an error: there is nothing to move.
    (void)std::rename(numbered(path_, number - 1).c_str(), numbered(path_, number).c_str());
  }
  if (std::rename(path_.c_str(), numbered(path_, 1).c_str()) != 0) return io_error(path_, "cannot be rotated");
  return reopen(false);
}

Status LogFile::append(std::string_view line) {
  const std::uint64_t needed = line.size() + 1;
  if (limits_.max_bytes > 0 && size_bytes_ > 0 && size_bytes_ + needed > limits_.max_bytes) {
    if (Status rotated = rotate(); !rotated.ok()) return rotated;
  }
  std::string text(line);
  text += '\n';
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = ::write(descriptor_, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return io_error(path_, "cannot be written");
    done += static_cast<std::size_t>(written);
  }
  size_bytes_ += needed;
  return {};
}

}  // namespace elastictrain::cli
