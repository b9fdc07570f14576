#include "cli/output/file_follow.h"

#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

namespace elastictrain::cli {
namespace {

constexpr int kLookAgainMs = 250;

ino_t inode_of(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 ? found.st_ino : 0;
}

}  // namespace

FileFollower::FileFollower(std::string path, std::uint64_t newest_bytes) : path_(std::move(path)) {
  open();
  if (newest_bytes > 0) skip_to(newest_bytes);
}

void FileFollower::skip_to(std::uint64_t newest_bytes) {
  stream_.seekg(0, std::ios::end);
  const std::streamoff size = stream_.tellg();
  const auto wanted = static_cast<std::streamoff>(newest_bytes);
  stream_.clear();
  stream_.seekg(std::max<std::streamoff>(0, size - wanted));
  if (std::string torn; size > wanted) std::getline(stream_, torn);
}

void FileFollower::open() {
  inode_ = inode_of(path_);
  stream_ = std::ifstream(path_, std::ios::binary);
}

bool FileFollower::is_replaced() const {
  const ino_t now = inode_of(path_);
  return now != 0 && now != inode_;
}

void FileFollower::read_rest(const std::function<void(std::string_view line)>& use) {
  std::array<char, 65536> block;
  stream_.clear();
  while (stream_.read(block.data(), block.size()) || stream_.gcount() > 0) {
    rest_.append(block.data(), static_cast<std::size_t>(stream_.gcount()));
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = rest_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      use(std::string_view(rest_).substr(begin, end - begin));
    }
    rest_.erase(0, begin);
  }
}

void FileFollower::read_lines(const std::function<void(std::string_view line)>& use) {
  const bool replaced = is_replaced();
  if (stream_.is_open()) read_rest(use);
  if (!replaced) return;
  open();
  rest_.clear();
  read_rest(use);
}

FileWatch::FileWatch(const std::string& path) : descriptor_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
  if (descriptor_ >= 0) inotify_add_watch(descriptor_, path.c_str(), IN_MODIFY);
}

FileWatch::~FileWatch() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void FileWatch::wait() {
  pollfd ready{descriptor_, POLLIN, 0};
  if (poll(&ready, 1, kLookAgainMs) <= 0) return;
  std::array<char, 4096> drained;
  while (::read(descriptor_, drained.data(), drained.size()) > 0) continue;
}

}  // namespace elastictrain::cli
