#include "cli/commands/checkpoint_place.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "supervisor/checkpoint_log.h"
#include "supervisor/journal_history.h"

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

Status try_log_directory(const std::string& directory) {
  std::error_code ignored;
  if (directory.empty() || fs::is_directory(directory, ignored)) return {};
  const fs::path place = nearest_existing(fs::absolute(directory, ignored));
  const int failed = fs::is_directory(place, ignored) ? try_to_write(place) : ENOTDIR;
  if (failed == 0) return {};
  return Error{ErrorCode::kIo, "log.directory " + directory + " cannot be created: " + std::strerror(failed)};
}

Status try_checkpoint_directory(const std::string& directory) {
  std::error_code ignored;
  const fs::path place = nearest_existing(fs::absolute(directory, ignored));
  const int failed = fs::is_directory(place, ignored) ? try_to_write(place) : ENOTDIR;
  if (failed == 0) return {};
  return Error{ErrorCode::kIo, "checkpoints cannot be written to checkpoint.directory " + directory + ": " +
                                   place.string() + ": " + std::strerror(failed) +
                                   "; choose another directory, or make this one writable"};
}

Status require_checkpoints(const std::string& directory, std::optional<Step> saved, const std::string& run) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("step-") && name.ends_with(".json")) return {};
  }
  const std::string what =
      saved ? "its newest one, of step " + std::to_string(*saved) + ", was written there" : "it has written none";
  return Error{ErrorCode::kNoInput, "run " + run + " cannot continue: there is no checkpoint in checkpoint.directory " +
                                        directory + ", and " + what +
                                        ". Mount the directory or restore its files; to begin at the first step: "
                                        "elastictrain run --resume " +
                                        run + " --fresh"};
}

std::optional<Step> saved_step(const std::string& journal_path) {
  CheckpointLog log;
  const auto read =
      read_journal_history(journal_path, [&log](const core::Record& record) { log.take(record, std::nullopt); });
  return read.ok() ? log.step() : std::nullopt;
}

}  // namespace elastictrain::cli
