#include "supervisor/protocol/check.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <string_view>

namespace elastictrain {
namespace {

std::atomic<ViolationObserver> violation_observer{nullptr};

// The last two parts of a path: the folder and the file.
std::string_view folder_and_file(std::string_view path) {
  const auto file = path.rfind('/');
  if (file == std::string_view::npos || file == 0) return path;
  const auto folder = path.rfind('/', file - 1);
  return folder == std::string_view::npos ? path : path.substr(folder + 1);
}

}  // namespace

void set_violation_observer(ViolationObserver observer) {
  violation_observer.store(observer);
}

// Memory may be broken, so the text is on the stack.
void end_on_violation(const char* file, int line, const char* what) {
  const auto place = folder_and_file(file);
  std::array<char, 512> text{};
  std::snprintf(text.data(), text.size(), "%.*s:%d: must hold: %s", static_cast<int>(place.size()), place.data(), line,
                what);
  // Past the stream of standard error: what a buffer holds is lost.
  ::dprintf(STDERR_FILENO, "elastictrain: internal error: %s\n", text.data());
  if (const auto observer = violation_observer.exchange(nullptr)) observer(text.data());
  leave_process();
}

void leave_process() {
  // Not fflush(): the thread that holds the lock may never release it.
  if (::ftrylockfile(stdout) == 0) ::fflush_unlocked(stdout);
  ::_exit(kViolationStatus);
}

}  // namespace elastictrain
