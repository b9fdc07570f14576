#include "supervisor/core/exit_text.h"

#include "supervisor/protocol/signal_name.h"

namespace elastictrain::core {

std::string exit_text(const WorkerExited& event) {
  if (event.signal != 0) return "was killed by " + protocol::signal_text(event.signal);
  return "exited with status " + std::to_string(event.exit_code);
}

int exit_status_of(const WorkerExited& event) {
  if (event.signal != 0) return 128 + event.signal;
  return event.exit_code >= 1 && event.exit_code <= 125 ? event.exit_code : 1;
}

std::string last_words(const std::vector<std::string>& lines) {
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    const std::size_t begin = line->find_first_not_of(" \t\r");
    if (begin != std::string::npos) return ": " + line->substr(begin);
  }
  return "";
}

}  // namespace elastictrain::core
