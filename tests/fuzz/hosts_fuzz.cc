// Host files, output of discovery commands and inline lists: accepted values must be safe in ssh's argument list.
#include <cstdint>
#include <string_view>

#include "launcher/hostfile.h"
#include "tests/fuzz/check.h"

namespace {

using namespace elastictrain;

void look(const Result<std::vector<launcher::Host>>& hosts) {
  if (!hosts) return fuzz::check(!hosts.error().message.empty(), "hosts are refused without a word");
  for (const launcher::Host& host : *hosts) {
    fuzz::check(launcher::is_host_name(host.name), "a name that is none was accepted");
    fuzz::check(host.name.front() != '-', "a name that reads as an option was accepted");
    fuzz::check(host.slots >= 1 && host.slots <= launcher::kMaxSlotsPerHost, "slots beyond their range were accepted");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  look(launcher::parse_hostfile(text, "hosts.txt"));
  look(launcher::parse_host_list(text));
  return 0;
}
