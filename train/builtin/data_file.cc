#include "train/builtin/data_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace elastictrain::train {
namespace {

Error unavailable(const std::string& path, const std::string& what) {
  return Error{ErrorCode::kUnavailable, path + ": " + what};
}

class OpenFile {
 public:
  // A pipe without a writer must not hold up the call.
  explicit OpenFile(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {}
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

Status read_all(int fd, const std::string& path, std::string& bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(fd, bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return unavailable(path, std::string("cannot be read: ") + std::strerror(errno));
    if (got == 0) return unavailable(path, "became shorter while it was read; do not write to it during a run");
    done += static_cast<std::size_t>(got);
  }
  return {};
}

}  // namespace

Result<std::string> read_file(const std::string& path) {
  const OpenFile file(path);
  struct stat info {};
  if (file.fd() < 0 || ::fstat(file.fd(), &info) != 0) {
    return unavailable(path, std::string("cannot be opened: ") + std::strerror(errno) +
                                 "; the data must be at this path on every host");
  }
  if (!S_ISREG(info.st_mode)) return unavailable(path, "is not a regular file; give the path of the data file itself");
  if (info.st_size == 0) return Error{ErrorCode::kInvalid, path + ": is empty"};
  std::string bytes(static_cast<std::size_t>(info.st_size), '\0');
  const Status read = read_all(file.fd(), path, bytes);
  if (!read) return read.error();
  return bytes;
}

std::vector<std::string> split_paths(std::string_view paths) {
  std::vector<std::string> parts;
  while (!paths.empty()) {
    const std::size_t comma = std::min(paths.find(','), paths.size());
    if (comma > 0) parts.emplace_back(paths.substr(0, comma));
    paths.remove_prefix(std::min(comma + 1, paths.size()));
  }
  return parts;
}

Error error_at_line(std::string_view name, std::size_t line, std::string_view what) {
  return {ErrorCode::kInvalid, std::string(name) + ":" + std::to_string(line) + ": " + std::string(what)};
}

Error error_at_offset(std::string_view name, std::size_t offset, std::string_view what) {
  return {ErrorCode::kInvalid, std::string(name) + ": offset " + std::to_string(offset) + ": " + std::string(what)};
}

}  // namespace elastictrain::train
