#include "train/checkpoint/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

namespace elastictrain::checkpoint {

File::File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

Error system_error(const std::string& path, const char* operation, int error_number) {
  return {ErrorCode::kIo, path + ": " + operation + ": " + std::generic_category().message(error_number)};
}

Result<Reading> Reading::open(const std::string& path) {
  Reading reading;
  reading.path_ = path;
  // Without O_NONBLOCK a named pipe would wait for a writer.
  reading.file_ = File(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!reading.file_.valid()) return system_error(path, "open", errno);
  struct stat info {};
  if (::fstat(reading.file_.fd(), &info) != 0) return system_error(path, "fstat", errno);
  if (!S_ISREG(info.st_mode)) return Error{ErrorCode::kInvalid, path + ": it is not a regular file"};
  reading.size_ = static_cast<std::uint64_t>(info.st_size);
  return reading;
}

Status Reading::read(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const auto got = ::read(file_.fd(), bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(path_, "read", errno);
    if (got == 0) return Error{ErrorCode::kInvalid, path_ + ": it is shorter than expected"};
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

Result<std::vector<std::byte>> read_whole(const std::string& path, std::size_t max) {
  auto reading = Reading::open(path);
  if (!reading) return reading.error();
  if (reading->size() > max) return Error{ErrorCode::kInvalid, path + ": it is longer than allowed"};
  std::vector<std::byte> bytes(reading->size());
  if (auto status = reading->read(bytes); !status) return status.error();
  return bytes;
}

NewFile::NewFile(std::string path, std::string temporary, File file)
    : path_(std::move(path)), temporary_(std::move(temporary)), file_(std::move(file)) {}

NewFile::NewFile(NewFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      file_(std::move(other.file_)),
      offset_(other.offset_),
      direct_(other.direct_),
      can_direct_(other.can_direct_) {}

NewFile::~NewFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Result<NewFile> NewFile::create(const std::string& directory, const std::string& name, const std::string& temporary) {
  const std::string path = directory + "/" + temporary;
  File file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!file.valid()) return system_error(path, "open", errno);
  return NewFile(directory + "/" + name, path, std::move(file));
}

void NewFile::set_direct(bool wanted) {
  if (direct_ == wanted) return;
  const int flags = ::fcntl(file_.fd(), F_GETFL);
  if (flags < 0 || ::fcntl(file_.fd(), F_SETFL, wanted ? flags | O_DIRECT : flags & ~O_DIRECT) != 0) {
    can_direct_ = false;
    return;
  }
  direct_ = wanted;
}

void NewFile::choose_direct(std::span<const std::byte> bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  const bool aligned = (address | bytes.size() | offset_) % kDirectAlignment == 0;
  set_direct(aligned && can_direct_);
}

Status NewFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    choose_direct(bytes);
    const auto written = ::write(file_.fd(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EINVAL && direct_) {  // needs another alignment, or has no direct I/O
      can_direct_ = false;
      continue;
    }
    if (written <= 0) return system_error(path_, "write", written == 0 ? ENOSPC : errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset_ += static_cast<std::uint64_t>(written);
  }
  return {};
}

Status NewFile::sync() {
  if (::fsync(file_.fd()) != 0) return system_error(path_, "fsync", errno);
  return {};
}

Status NewFile::publish() {
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return system_error(path_, "rename", errno);
  temporary_.clear();
  return {};
}

Status make_directory(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return Error{ErrorCode::kIo, directory + ": " + error.message()};
  return {};
}

void sync_directory(const std::string& directory) {
  const File handle(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (handle.valid()) ::fsync(handle.fd());
}

}  // namespace elastictrain::checkpoint
