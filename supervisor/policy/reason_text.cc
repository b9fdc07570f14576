#include "supervisor/policy/reason_text.h"

#include <algorithm>
#include <utility>

namespace elastictrain::policy {

void shorten(std::string& text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return;
  while (max_bytes > 0 && (static_cast<unsigned char>(text[max_bytes]) & 0xc0) == 0x80) --max_bytes;
  text.resize(max_bytes);
  text += "...";
}

std::string one_line(std::string text) {
  shorten(text, kMaxReasonBytes);
  std::replace_if(
      text.begin(), text.end(), [](unsigned char byte) { return byte < 0x20 || byte == 0x7f; }, ' ');
  return text;
}

}  // namespace elastictrain::policy
