#include "supervisor/recovery_log.h"

#include <string_view>

#include "supervisor/protocol/json_text.h"

namespace elastictrain {
namespace {

nlohmann::json value_of(const Journal::Fields& fields, std::string_view name) {
  for (const auto& [key, text] : fields) {
    if (key == name) return parse_json(text);
  }
  return nullptr;
}

std::string text_of(const Journal::Fields& fields, std::string_view name) {
  const nlohmann::json value = value_of(fields, name);
  return value.is_string() ? value.get<std::string>() : "";
}

Generation generation_of(const Journal::Fields& fields) {
  const nlohmann::json value = value_of(fields, "generation");
  return value.is_number_unsigned() ? value.get<Generation>() : 0;
}

}  // namespace

void RecoveryLog::take(const std::string& event, const Journal::Fields& fields) {
  if (event == "commit") {
    committed_ = generation_of(fields);
    reason_ = text_of(fields, "reason");
  } else if (event == "generation" && text_of(fields, "kind") == "recover") {
    ++count_;
    last_ = Last{generation_of(fields), generation_of(fields) == committed_ ? reason_ : "", std::nullopt};
  } else if (event == "idle" && last_ && generation_of(fields) == last_->generation) {
    const nlohmann::json idle_ms = value_of(fields, "idle_ms");
    if (idle_ms.is_number()) last_->idle_s = idle_ms.get<double>() / 1e3;
  }
}

}  // namespace elastictrain
