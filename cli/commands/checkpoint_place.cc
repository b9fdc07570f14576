#include "cli/commands/checkpoint_place.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace elastictrain::cli {
namespace {

namespace fs = std::filesystem;

fs::path nearest_existing(fs::path path) {
  std::error_code ignored;
  while (path.has_relative_path() && !fs::exists(path, ignored)) path = path.parent_path();
  return path;
}

// 0, or errno.
int try_to_write(const fs::path& directory) {
  const std::string name = (directory / (".elastictrain-tries-" + std::to_string(::getpid()))).string();
  const int file = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return errno;
  const bool written = ::write(file, "\n", 1) == 1;
  const int failed = written ? 0 : errno;
  ::close(file);
  ::unlink(name.c_str());
  return failed;
}

}  // namespace

Status try_checkpoint_directory(const std::string& directory) {
  std::error_code ignored;
  const fs::path place = nearest_existing(fs::absolute(directory, ignored));
  const int failed = fs::is_directory(place, ignored) ? try_to_write(place) : ENOTDIR;
  if (failed == 0) return {};
  return Error{ErrorCode::kIo, "checkpoints cannot be written to checkpoint.directory " + directory + ": " +
                                   place.string() + ": " + std::strerror(failed) +
                                   "; choose another directory, or make this one writable"};
}

}  // namespace elastictrain::cli
