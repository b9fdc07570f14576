#include "cli/output/since.h"

#include "cli/config/text.h"

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

}  // namespace elastictrain::cli
