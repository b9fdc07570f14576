#include "cli/output/event_text.h"

#include <array>
#include <cstdio>
#include <ctime>

#include "supervisor/protocol/json_text.h"

namespace elastictrain::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::string field_text(const OrderedJson& value) {
  if (!value.is_string()) return json_text(value);
  const std::string text = value.get<std::string>();
  const bool plain = !text.empty() && text.find_first_of(" \"=\t") == std::string::npos;
  return plain ? text : json_text(value);
}

// Empty for a number that is not a plausible time.
std::string clock_text(double unix_seconds) {
  constexpr double kYear3000 = 32'503'680'000;
  if (!(unix_seconds >= 0 && unix_seconds < kYear3000)) return "";
  const std::time_t seconds = static_cast<std::time_t>(unix_seconds);
  tm parts{};
  localtime_r(&seconds, &parts);
  const int milliseconds = static_cast<int>((unix_seconds - static_cast<double>(seconds)) * 1000) % 1000;
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%02d:%02d:%02d.%03d  ", parts.tm_hour, parts.tm_min, parts.tm_sec,
                milliseconds);
  return text.data();
}

bool is_bookkeeping(const std::string& name) {
  return name == "event" || name == "seq" || name == "t" || name == "up";
}

// Deeper values are omitted: printing them would use stack for each level.
constexpr int kMaxDepth = 32;

// The journal contains output of programs and hosts. Its control bytes must not reach the terminal.
std::string visible(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : '\0');
    const bool is_c1 = byte == 0xc2 && next >= 0x80 && next <= 0x9f;  // C1 control characters encoded as UTF-8
    if (byte >= 0x20 && byte != 0x7f && !is_c1) {
      out += text[i];
      continue;
    }
    std::array<char, 8> escaped{};
    std::snprintf(escaped.data(), escaped.size(), "\\x%02x", is_c1 ? next : byte);
    out += escaped.data();
    if (is_c1) ++i;
  }
  return out;
}

}  // namespace

std::string render_event(std::string_view journal_line) {
  const OrderedJson line = parse_ordered_json(journal_line, kMaxDepth);
  if (!line.is_object() || !line.contains("event") || !line["event"].is_string()) return visible(journal_line);
  if (line["event"] == "observed") return "";
  const OrderedJson time = line.value("t", OrderedJson());
  std::string text = time.is_number() ? clock_text(time.get<double>()) : "";
  text += line["event"].get<std::string>() + " ";
  for (const auto& [name, value] : line.items()) {
    if (!is_bookkeeping(name)) text += " " + name + "=" + field_text(value);
  }
  if (text.ends_with(' ')) text.pop_back();
  return visible(text);
}

}  // namespace elastictrain::cli
