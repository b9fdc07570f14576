#include "supervisor/cluster/message_texts.h"

#include <algorithm>

#include "supervisor/protocol/host_name.h"

namespace elastictrain::cluster {
namespace {

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

bool is_text(const std::string& text) {
  return text.size() <= kMaxTextBytes && std::none_of(text.begin(), text.end(), is_control);
}

bool is_name(const std::string& text) {
  return !text.empty() && text.size() <= kMaxNameBytes && is_text(text);
}

bool is_name_of_host(const std::string& text) {
  return is_name(text) && protocol::is_host_name(text);
}

bool is_long_text(const std::string& text) {
  return text.size() <= kMaxLongTextBytes && text.find('\0') == std::string::npos;
}

// Not cut in the middle of a character.
std::string cut(std::string text) {
  if (text.size() > kMaxTextBytes) {
    std::size_t end = kMaxTextBytes;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
    text.resize(end);
  }
  std::replace_if(text.begin(), text.end(), is_control, ' ');
  return text;
}

}  // namespace

const json_fields::TextKind kNameKind{"a printable text of 1 to 255 bytes", is_name};
const json_fields::TextKind kHostNameKind{"a name of letters, digits and .-_:%, not first -", is_name_of_host};
const json_fields::TextKind kTextKind{"a printable text of at most 4096 bytes", is_text, cut};

const json_fields::TextKind kLongTextKind{"a text of at most 128 KiB without a zero byte", is_long_text};

}  // namespace elastictrain::cluster
