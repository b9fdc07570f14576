#include "launcher/input_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace elastictrain::launcher {
namespace {

using Clock = std::chrono::steady_clock;

class Input {
 public:
  explicit Input(const std::string& path)
      : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)) {}
  ~Input() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  Result<std::string> read(std::size_t max_bytes, Clock::time_point deadline) {
    struct stat about {};
    if (descriptor_ < 0 || ::fstat(descriptor_, &about) != 0) return failure(std::strerror(errno));
    if (S_ISDIR(about.st_mode)) return failure("it is a directory");
    std::string text;
    std::array<char, 64 << 10> block;
    while (true) {
      if (!wait(deadline)) return failure("it gives nothing to read; a pipe needs a writer");
      const ssize_t count = ::read(descriptor_, block.data(), block.size());
      if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (count < 0) return failure(std::strerror(errno));
      if (count == 0) return text;
      text.append(block.data(), static_cast<std::size_t>(count));
      if (text.size() > max_bytes) return failure("it has more than " + std::to_string(max_bytes) + " bytes");
    }
  }

 private:
  // A regular file is always ready.
  bool wait(Clock::time_point deadline) const {
    pollfd waiting{descriptor_, POLLIN, 0};
    while (true) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
      const int ready = ::poll(&waiting, 1, static_cast<int>(std::max<long long>(left, 0)));
      if (ready > 0) return true;
      if (ready == 0 || errno != EINTR) return false;
    }
  }

  Error failure(const std::string& why) const { return {ErrorCode::kNoInput, path_ + ": cannot be read: " + why}; }

  std::string path_;
  int descriptor_;
};

}  // namespace

Result<std::string> read_input_file(const std::string& path, std::size_t max_bytes,
                                    std::chrono::milliseconds deadline) {
  return Input(path).read(max_bytes, Clock::now() + deadline);
}

}  // namespace elastictrain::launcher
