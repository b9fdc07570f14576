#include "launcher/agent/error_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <sstream>

#include "supervisor/protocol/json_text.h"

namespace elastictrain::launcher {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxFileBytes = 256u << 10;
constexpr std::size_t kMaxErrorLines = 10;
constexpr std::size_t kMaxErrorLineBytes = 1000;

// A worker may have created anything there, even a FIFO: the read never blocks.
std::string read_start(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (file < 0) return {};
  std::string text(kMaxFileBytes, '\0');
  std::size_t used = 0;
  while (used < text.size()) {
    const ssize_t count = ::read(file, text.data() + used, text.size() - used);
    if (count <= 0) break;
    used += static_cast<std::size_t>(count);
  }
  ::close(file);
  text.resize(used);
  return text;
}

// {"message": "…"} or {"message": {"message": "…", "extraInfo": {…}}}.
std::string message_in(const std::string& text) {
  const Json json = parse_json(text);
  if (!json.is_object() || !json.contains("message")) return text;
  const Json& message = json["message"];
  if (message.is_string()) return message.get<std::string>();
  if (message.is_object() && message.contains("message") && message["message"].is_string()) {
    return message["message"].get<std::string>();
  }
  return text;
}

}  // namespace

std::vector<std::string> read_error_file(const std::string& path) {
  std::vector<std::string> lines;
  std::istringstream text(message_in(read_start(path)));
  for (std::string line; lines.size() < kMaxErrorLines && std::getline(text, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty()) lines.push_back(line.substr(0, kMaxErrorLineBytes));
  }
  return lines;
}

}  // namespace elastictrain::launcher
