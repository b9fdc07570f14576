#include "supervisor/protocol/json_text.h"

namespace elastictrain {
namespace {

template <class Json>
Json parse(std::string_view text, int max_depth) {
  if (max_depth == kAnyJsonDepth) return Json::parse(text, nullptr, false);
  const auto shallow = [max_depth](int depth, typename Json::parse_event_t, Json&) { return depth <= max_depth; };
  return Json::parse(text, shallow, false);
}

}  // namespace

nlohmann::json parse_json(std::string_view text, int max_depth) {
  return parse<nlohmann::json>(text, max_depth);
}

nlohmann::ordered_json parse_ordered_json(std::string_view text, int max_depth) {
  return parse<nlohmann::ordered_json>(text, max_depth);
}

std::string json_text(const nlohmann::json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string json_text(const nlohmann::ordered_json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace elastictrain
