#include "supervisor/protocol/json_text.h"

#include <array>
#include <cmath>
#include <cstdio>

namespace elastictrain {
namespace {

// Length of the valid UTF-8 sequence at the start of `text`, 0 when there is none.
std::size_t utf8_length(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  std::size_t length = 0;
  if (lead >= 0xc2 && lead <= 0xdf) length = 2;
  if (lead >= 0xe0 && lead <= 0xef) length = 3;
  if (lead >= 0xf0 && lead <= 0xf4) length = 4;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return 0;
  }
  const auto second = static_cast<unsigned char>(text[1]);
  const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  const bool outside = (lead == 0xed && second > 0x9f) || (lead == 0xf4 && second > 0x8f);
  return overlong || outside ? 0 : length;
}

void append_escaped(std::string& out, unsigned char byte) {
  std::array<char, 8> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "\\u%04x", byte);
  out += buffer.data();
}

}  // namespace

std::string quoted_json(std::string_view text) {
  std::string out = "\"";
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == '"' || byte == '\\') {
      out += '\\';
      out += text[i];
    } else if (byte >= 0x20 && byte < 0x7f) {
      out += text[i];
    } else if (const std::size_t length = byte < 0x80 ? 0 : utf8_length(text.substr(i)); length > 0) {
      out += text.substr(i, length);
      i += length - 1;
    } else {
      append_escaped(out, byte);
    }
  }
  return out + "\"";
}

std::string real_json(double value) {
  if (!std::isfinite(value)) return "null";
  std::array<char, 40> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.9g", value);
  return buffer.data();
}

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
