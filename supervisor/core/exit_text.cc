#include "supervisor/core/exit_text.h"

namespace elastictrain::core {

std::string exit_text(const WorkerExited& event) {
  if (event.signal != 0) return "was killed by signal " + std::to_string(event.signal);
  return "exited with status " + std::to_string(event.exit_code);
}

int exit_status_of(const WorkerExited& event) {
  if (event.signal != 0) return 128 + event.signal;
  return event.exit_code >= 1 && event.exit_code <= 125 ? event.exit_code : 1;
}

std::string last_lines(const std::vector<std::string>& lines) {
  constexpr std::size_t kShown = 5;
  std::string text;
  for (std::size_t i = lines.size() > kShown ? lines.size() - kShown : 0; i < lines.size(); ++i) {
    text += "\n  " + lines[i];
  }
  return text.empty() ? text : "; its last error output:" + text;
}

}  // namespace elastictrain::core
