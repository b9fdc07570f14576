#include "launcher/mpi/pool_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "supervisor/protocol/codec.h"

namespace elastictrain::launcher {
namespace {

constexpr const char* kFileName = "ranks";

Error failed(const std::string& what, int reason) {
  return {ErrorCode::kIo, "cannot write the start messages of the MPI pool, " + what + ": " + std::strerror(reason)};
}

// On a shared file system the key must have reached the disk before another host reads the file.
Status write_whole(const std::string& path, const std::string& text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return failed(path, errno);
  std::size_t written = 0;
  int reason = 0;
  while (written < text.size() && reason == 0) {
    const ssize_t count = ::write(file, text.data() + written, text.size() - written);
    if (count >= 0) written += static_cast<std::size_t>(count);
    if (count < 0 && errno != EINTR) reason = errno;
  }
  if (reason == 0 && ::fsync(file) != 0) reason = errno;
  ::close(file);
  return reason == 0 ? Status() : Status(failed(path, reason));
}

}  // namespace

Result<PoolFile> PoolFile::write(const std::string& directory, const std::vector<protocol::AgentBootstrap>& ranks) {
  std::error_code ignored;
  std::filesystem::create_directories(directory, ignored);
  std::string own = directory + "/.mpi-pool-XXXXXX";
  if (::mkdtemp(own.data()) == nullptr) return failed(own, errno);
  PoolFile file(own + "/" + kFileName);
  std::string text;
  for (const auto& rank : ranks) text += protocol::encode_frame(protocol::Bootstrap(rank));
  const Status written = write_whole(file.path_, text);
  if (!written) return written.error();
  return file;
}

PoolFile::PoolFile(PoolFile&& other) noexcept : path_(std::exchange(other.path_, {})) {}

PoolFile::~PoolFile() {
  if (path_.empty()) return;
  ::unlink(path_.c_str());
  ::rmdir(std::filesystem::path(path_).parent_path().c_str());
}

}  // namespace elastictrain::launcher
