#include "train/checkpoint/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "supervisor/protocol/remote_place.h"
#include "train/checkpoint/client_target.h"

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

namespace {

// Only regular files can be opened.
class Reading : public Source {
 public:
  static Result<std::unique_ptr<Source>> open(const std::string& path);
  std::uint64_t size() const override { return size_; }
  Status read(std::span<std::byte> bytes) override;

 private:
  std::string path_;
  File file_;
  std::uint64_t size_ = 0;
};

Result<std::unique_ptr<Source>> Reading::open(const std::string& path) {
  auto reading = std::make_unique<Reading>();
  reading->path_ = path;
  // Without O_NONBLOCK a named pipe would wait for a writer.
  reading->file_ = File(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!reading->file_.valid()) return system_error(path, "open", errno);
  struct stat info {};
  if (::fstat(reading->file_.fd(), &info) != 0) return system_error(path, "fstat", errno);
  if (!S_ISREG(info.st_mode)) return Error{ErrorCode::kInvalid, path + ": it is not a regular file"};
  reading->size_ = static_cast<std::uint64_t>(info.st_size);
  return std::unique_ptr<Source>(std::move(reading));
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

class NewFile : public Sink {
 public:
  static Result<std::unique_ptr<Sink>> create(const std::string& path, const std::string& temporary);
  NewFile(std::string path, std::string temporary, File file)
      : path_(std::move(path)), temporary_(std::move(temporary)), file_(std::move(file)) {}
  NewFile(NewFile&&) = delete;
  ~NewFile() override {
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }
  Status write(std::span<const std::byte> bytes) override;
  Status sync() override;
  Status publish() override;

 private:
  void choose_direct(std::span<const std::byte> bytes);
  void set_direct(bool wanted);
  std::string path_;
  std::string temporary_;  // path; empty once it is published
  File file_;
  std::uint64_t offset_ = 0;
  bool direct_ = false;
  bool can_direct_ = true;
};

Result<std::unique_ptr<Sink>> NewFile::create(const std::string& path, const std::string& temporary) {
  File file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!file.valid()) return system_error(temporary, "open", errno);
  return std::unique_ptr<Sink>(std::make_unique<NewFile>(path, temporary, std::move(file)));
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

class DirectoryTarget : public Target {
 public:
  explicit DirectoryTarget(std::string directory) : directory_(std::move(directory)) {}

  const std::string& place() const override { return directory_; }
  Result<std::vector<Entry>> list() override;
  Result<std::unique_ptr<Source>> open(const std::string& name) override { return Reading::open(path(name)); }
  Result<std::unique_ptr<Sink>> create(const std::string& name, const std::string& temporary, std::uint64_t) override {
    return NewFile::create(path(name), path(temporary));
  }
  void remove(const std::string& name) override { ::unlink(path(name).c_str()); }
  Status prepare() override;
  // It is not an error if the file system does not support it.
  void sync() override {
    const File handle(::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (handle.valid()) ::fsync(handle.fd());
  }
  bool names_pairs_together() const override { return true; }

 private:
  std::string directory_;
};

Result<std::vector<Target::Entry>> DirectoryTarget::list() {
  struct Close {
    void operator()(DIR* handle) const { ::closedir(handle); }
  };
  std::vector<Entry> entries;
  const std::unique_ptr<DIR, Close> handle(::opendir(directory_.c_str()));
  if (!handle && errno == ENOENT) return entries;
  if (!handle) return system_error(directory_, "opendir", errno);
  for (;;) {
    errno = 0;
    const dirent* const found = ::readdir(handle.get());
    if (found == nullptr) break;
    struct stat info {};
    const bool known = ::stat(path(found->d_name).c_str(), &info) == 0;
    entries.push_back({found->d_name, known ? static_cast<std::uint64_t>(info.st_size) : 0});
  }
  if (errno != 0) return system_error(directory_, "readdir", errno);
  return entries;
}

Status DirectoryTarget::prepare() {
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  if (error) return Error{ErrorCode::kIo, directory_ + ": " + error.message()};
  return {};
}

}  // namespace

std::unique_ptr<Target> make_directory_target(std::string directory) {
  return std::make_unique<DirectoryTarget>(std::move(directory));
}

Result<std::vector<std::byte>> read_whole(Target& target, const std::string& name, std::size_t max) {
  auto source = target.open(name);
  if (!source) return source.error();
  if ((*source)->size() > max) return Error{ErrorCode::kInvalid, target.path(name) + ": it is longer than allowed"};
  std::vector<std::byte> bytes((*source)->size());
  if (auto status = (*source)->read(bytes); !status) return status.error();
  return bytes;
}

std::unique_ptr<Target> open_target(const std::string& place, const Client& client) {
  return protocol::is_remote_place(place) ? make_client_target(place, client) : make_directory_target(place);
}

}  // namespace elastictrain::checkpoint
