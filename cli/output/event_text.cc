#include "cli/output/event_text.h"

#include <array>
#include <cstdio>
#include <ctime>

#include "cli/config/text.h"
#include "cli/output/printable.h"
#include "supervisor/protocol/json_text.h"

namespace elastictrain::cli {
namespace {

bool is_date(const std::string& text) {
  return text.size() >= 10 && text.find_first_not_of("0123456789-T:.") == std::string::npos && text[4] == '-';
}

}  // namespace

std::string local_time_text(std::time_t time) {
  std::tm parts{};
  localtime_r(&time, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts)};
}

Result<std::string> parse_since(const std::string& text) {
  const auto duration_ms = parse_duration_ms(text);
  if (duration_ms.ok()) return local_time_text(std::time(nullptr) - static_cast<std::time_t>(*duration_ms / 1000));
  if (is_date(text)) return text;
  return Error{ErrorCode::kInvalid,
               "--since: '" + text + "' is neither a duration, e.g. 10m, nor a time, e.g. 2026-01-31T14:03"};
}

bool is_since(std::string_view time, std::string_view since) {
  return time.substr(0, since.size()) >= since;
}

namespace {

using OrderedJson = nlohmann::ordered_json;

std::string field_text(const OrderedJson& value) {
  if (!value.is_string()) return json_text(value);
  const std::string text = value.get<std::string>();
  const bool plain = !text.empty() && text.find_first_of(" \"=\t") == std::string::npos;
  return plain ? text : json_text(value);
}

// `environment`: of a job, which may hold secrets.
bool is_bookkeeping(const std::string& name) {
  return name == "event" || name == "environment" || name == "seq" || name == "t" || name == "up";
}

std::string text_in(const OrderedJson& line, const char* name) {
  const auto found = line.find(name);
  return found != line.end() && found->is_string() ? found->get<std::string>() : "";
}

JournalLevel level_of(const OrderedJson& line) {
  return level_of_event(text_in(line, "event"), text_in(line, "key"));
}

// Deeper values are omitted: printing them would use stack for each level.
constexpr int kMaxDepth = 32;

}  // namespace

std::string date_text(double unix_seconds) {
  constexpr double kYear3000 = 32'503'680'000;
  if (!(unix_seconds >= 0 && unix_seconds < kYear3000)) return "";
  const std::time_t seconds = static_cast<std::time_t>(unix_seconds);
  const int milliseconds = static_cast<int>((unix_seconds - static_cast<double>(seconds)) * 1000) % 1000;
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), ".%03d", milliseconds);
  return local_time_text(seconds) + text.data();
}

std::string clock_text(double unix_seconds) {
  const std::string date = date_text(unix_seconds);
  return date.empty() ? "" : date.substr(date.find('T') + 1) + "  ";
}

std::string event_time(std::string_view journal_line) {
  const OrderedJson line = parse_ordered_json(journal_line, kMaxDepth);
  return line.is_object() && line.contains("t") && line["t"].is_number() ? date_text(line["t"].get<double>()) : "";
}

std::string event_name(std::string_view journal_line) {
  const OrderedJson line = parse_ordered_json(journal_line, kMaxDepth);
  return line.is_object() ? text_in(line, "event") : "";
}

JournalLevel event_level(std::string_view journal_line) {
  const OrderedJson line = parse_ordered_json(journal_line, kMaxDepth);
  return line.is_object() ? level_of(line) : JournalLevel::kInfo;
}

std::string render_event(std::string_view journal_line, EventTime shown) {
  const OrderedJson line = parse_ordered_json(journal_line, kMaxDepth);
  if (!line.is_object() || !line.contains("event") || !line["event"].is_string())
    return printable(journal_line, Lines::kOne);
  if (line["event"] == "observed") return "";
  const OrderedJson time = line.value("t", OrderedJson());
  std::string text;
  if (time.is_number() && shown == EventTime::kClock) text = clock_text(time.get<double>());
  if (time.is_number() && shown == EventTime::kDate) text = date_text(time.get<double>());
  if (shown == EventTime::kDate && !text.empty()) text += "  ";
  const JournalLevel level = level_of(line);
  if (level >= JournalLevel::kWarning) text += std::string(name_of(level)) + ": ";
  text += line["event"].get<std::string>() + " ";
  for (const auto& [name, value] : line.items()) {
    if (!is_bookkeeping(name)) text += " " + name + "=" + field_text(value);
  }
  if (text.ends_with(' ')) text.pop_back();
  return printable(text, Lines::kOne);
}

}  // namespace elastictrain::cli
