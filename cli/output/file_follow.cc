#include "cli/output/file_follow.h"

#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "supervisor/protocol/fnv1a.h"

namespace elastictrain::cli {
namespace {

constexpr int kLookAgainMs = 250;

ino_t inode_of(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 ? found.st_ino : 0;
}

constexpr std::uint64_t kLongestLineBytes = 16u << 20;
constexpr int kMostRotations = 8;  // that one call follows

std::uint64_t size_of(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 ? static_cast<std::uint64_t>(found.st_size) : 0;
}

// Leaves the stream at the place.
bool is_at(std::ifstream& stream, const LogFollower::Place& place) {
  if (place.offset == 0) return true;
  if (place.line_bytes == 0 || place.line_bytes > place.offset || place.line_bytes > kLongestLineBytes) return false;
  std::string found(place.line_bytes, '\0');
  stream.seekg(static_cast<std::streamoff>(place.offset - found.size()));
  stream.read(found.data(), static_cast<std::streamsize>(found.size()));
  return stream.good() && protocol::fnv1a(found) == place.line_hash;
}

// Passes on what has been added to the file, in whole lines with their ends. `rest`: the beginning of the next one.
void take_lines(std::ifstream& stream, std::string& rest, const std::function<void(std::string_view line)>& use) {
  std::array<char, 65536> block;
  stream.clear();
  while (stream.read(block.data(), block.size()) || stream.gcount() > 0) {
    rest.append(block.data(), static_cast<std::size_t>(stream.gcount()));
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = rest.find('\n', begin)) != std::string::npos; begin = end + 1) {
      use(std::string_view(rest).substr(begin, end + 1 - begin));
    }
    rest.erase(0, begin);
  }
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
  take_lines(stream_, rest_, [&use](std::string_view line) { use(line.substr(0, line.size() - 1)); });
}

void FileFollower::read_lines(const std::function<void(std::string_view line)>& use) {
  const bool replaced = is_replaced();
  if (stream_.is_open()) read_rest(use);
  if (!replaced) return;
  open();
  rest_.clear();
  read_rest(use);
}

LogFollower::LogFollower(std::string path, std::string older, std::optional<Place> from)
    : path_(std::move(path)), older_(std::move(older)), from_(std::move(from)) {}

bool LogFollower::open_first(const std::function<void()>& begun_anew) {
  if (from_ && (open(path_, *from_) || open(older_, *from_))) return true;
  if (open(older_, {})) return true;
  if (!open(path_, {})) return false;
  if (from_) begun_anew();
  return true;
}

bool LogFollower::open(const std::string& path, const Place& from) {
  const ino_t inode = inode_of(path);
  std::ifstream stream(path, std::ios::binary);
  if (inode == 0 || !stream || inode_of(path) != inode || !is_at(stream, from)) return false;
  stream_ = std::move(stream);
  inode_ = inode;
  rest_.clear();
  last_line_.clear();
  place_ = from;
  return true;
}

LogFollower::Next LogFollower::next() const {
  const ino_t newer = inode_of(path_);
  if (newer == 0) return Next::kNone;  // it is being rotated
  if (newer == inode_) return size_of(path_) < place_.offset ? Next::kAnew : Next::kNone;
  const ino_t older = inode_of(older_);
  if (older == inode_) return Next::kNewer;
  return older != 0 ? Next::kOlder : Next::kAnew;
}

void LogFollower::read_rest(const std::function<void(std::string_view line)>& use) {
  take_lines(stream_, rest_, [&](std::string_view line) {
    last_line_ = line;
    place_.offset += line.size();
    use(line.substr(0, line.size() - 1));
  });
}

LogFollower::Place LogFollower::place() const {
  if (last_line_.empty()) return place_;
  return {place_.offset, last_line_.size(), protocol::fnv1a(last_line_)};
}

void LogFollower::read_lines(const std::function<void(std::string_view line)>& use,
                             const std::function<void()>& begun_anew) {
  if (!stream_.is_open() && !open_first(begun_anew)) return;
  for (int rotation = 0; rotation < kMostRotations; ++rotation) {
    const Next next = this->next();
    read_rest(use);
    if (next == Next::kNone) return;
    if (!open(next == Next::kOlder ? older_ : path_, {})) return;
    if (next == Next::kAnew) begun_anew();
  }
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
