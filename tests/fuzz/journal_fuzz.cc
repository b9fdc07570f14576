// A journal of any content, as `elastictrain events` shows it: one line of text for each line, without control bytes
// that would move a terminal's cursor.
#include <cstdint>
#include <string>
#include <string_view>

#include "cli/output/event_text.h"
#include "tests/fuzz/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace elastictrain;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string line = cli::render_event(text.substr(0, end));
    for (const char c : line) fuzz::check(c < 0 || (c >= ' ' && c != 0x7f), "a control byte reaches the terminal");
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return 0;
}
