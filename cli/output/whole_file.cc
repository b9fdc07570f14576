#include "cli/output/whole_file.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>

namespace elastictrain::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kMostOfPipe{10};
constexpr int kLook_ms = 100;

std::error_code last_error() {
  return {errno != 0 ? errno : EIO, std::generic_category()};
}

std::error_code write(const fs::path& path, const std::string& text) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file ? std::error_code() : last_error();
}

// A pipe may have no reader, or one that is slow.
std::error_code write_in_place(const fs::path& path, const std::string& text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return last_error();
  const auto until = std::chrono::steady_clock::now() + kMostOfPipe;
  std::error_code failed;
  for (std::size_t done = 0; done < text.size() && !failed;) {
    const ssize_t count = ::write(file, text.data() + done, text.size() - done);
    if (count >= 0) {
      done += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN && std::chrono::steady_clock::now() < until) {
      pollfd room{file, POLLOUT, 0};
      (void)::poll(&room, 1, kLook_ms);
    } else if (errno != EINTR) {
      failed = errno == EAGAIN ? std::make_error_code(std::errc::timed_out) : last_error();
    }
  }
  ::close(file);
  return failed;
}

}  // namespace

std::error_code write_whole_file(const std::string& path, const std::string& text) {
  std::error_code failed;
  const auto kind = fs::status(path, failed).type();
  if (kind == fs::file_type::directory) return std::make_error_code(std::errc::is_a_directory);
  if (kind != fs::file_type::regular && kind != fs::file_type::not_found) return write_in_place(path, text);
  const fs::path target = kind == fs::file_type::regular ? fs::canonical(path, failed) : fs::path(path);
  if (kind == fs::file_type::regular && failed) return failed;
  const fs::path temporary = target.string() + ".new";
  failed = write(temporary, text);
  if (!failed) fs::rename(temporary, target, failed);
  std::error_code ignored;
  if (failed) fs::remove(temporary, ignored);
  return failed;
}

void remove_whole_file(const std::string& path) {
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) fs::remove(path, ignored);
}

}  // namespace elastictrain::cli
