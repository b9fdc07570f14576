#include "cli/output/event_text.h"

#include <array>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

namespace elastictrain::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string field_text(const Json& value) {
  if (!value.is_string()) return value.dump();
  const std::string text = value.get<std::string>();
  const bool plain = !text.empty() && text.find_first_of(" \"=\t") == std::string::npos;
  return plain ? text : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string clock_text(double unix_seconds) {
  const std::time_t seconds = static_cast<std::time_t>(unix_seconds);
  tm parts{};
  localtime_r(&seconds, &parts);
  const int milliseconds = static_cast<int>((unix_seconds - static_cast<double>(seconds)) * 1000) % 1000;
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%02d:%02d:%02d.%03d", parts.tm_hour, parts.tm_min, parts.tm_sec,
                milliseconds);
  return text.data();
}

bool is_bookkeeping(const std::string& name) {
  return name == "event" || name == "seq" || name == "t" || name == "up";
}

}  // namespace

std::string render_event(std::string_view journal_line) {
  const Json line = Json::parse(journal_line, nullptr, false);
  if (!line.is_object() || !line.contains("event") || !line["event"].is_string()) return std::string(journal_line);
  const Json time = line.value("t", Json());
  std::string text = time.is_number() ? clock_text(time.get<double>()) + "  " : "";
  text += line["event"].get<std::string>() + " ";
  for (const auto& [name, value] : line.items()) {
    if (!is_bookkeeping(name)) text += " " + name + "=" + field_text(value);
  }
  if (text.ends_with(' ')) text.pop_back();
  return text;
}

}  // namespace elastictrain::cli
