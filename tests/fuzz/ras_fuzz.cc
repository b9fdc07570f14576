// Any answer in place of NCCL's RAS service: the lines that go to the journal must be few, short and of plain
// characters.
#include <cstdint>
#include <string>

#include "launcher/agent/ras_report.h"
#include "tests/fuzz/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace elastictrain;
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const std::string& report : {text, "NCCL version 2.28.9\n" + text}) {
    const auto lines = launcher::explain_ras_report(report);
    fuzz::check(lines.size() <= 40, "more lines than promised");
    for (const std::string& line : lines) {
      fuzz::check(!line.empty() && line.size() <= 4096, "a line that is empty or too long");
      for (const char c : line) fuzz::check(c >= 0x20 && c < 0x7f, "a byte that is no plain character");
    }
  }
  return 0;
}
