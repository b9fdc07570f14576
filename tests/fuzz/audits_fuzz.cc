// The file of audits next to a journal, with any content: what is read must mean the same after it is written again.
#include <cstdint>
#include <string>
#include <string_view>

#include "supervisor/audit_file.h"
#include "tests/fuzz/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace elastictrain;
  const auto records = parse_audits(std::string_view(reinterpret_cast<const char*>(data), size));
  for (const auto& [worker, audit] : records) {
    const std::string line = audit_line(worker, audit);
    const auto again = parse_audits(line + "\n");
    fuzz::check(again.size() == 1 && again[0].first == worker, "a record is lost when it is written again");
    fuzz::check(audit_line(worker, again[0].second) == line, "a record changes when it is written again");
  }
  return 0;
}
