#include <algorithm>

#include "launcher/batch/systems.h"

namespace elastictrain::launcher::batch {
namespace {

// The first two fields of a line: host and slots.
Status collect_line(std::string_view line, HostCollector& hosts) {
  constexpr std::string_view kSpaces = " \t";
  const std::size_t end = std::min(line.find_first_of(kSpaces), line.size());
  std::string_view rest = line.substr(end);
  rest.remove_prefix(std::min(rest.find_first_not_of(kSpaces), rest.size()));
  const auto slots = read_slots(rest.substr(0, rest.find_first_of(kSpaces)));
  return slots ? hosts.add(line.substr(0, end), *slots) : Status(slots.error());
}

}  // namespace

Result<Allocation> read_sge(const BatchSurroundings& around) {
  const auto text = around.read_file(variable(around, "PE_HOSTFILE"));
  if (!text) return text.error();
  HostCollector hosts;
  for (std::string_view rest = *text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find_first_of("\r\n"));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.empty()) continue;
    const Status added = collect_line(line, hosts);
    if (!added) return Error{added.error().code, "PE_HOSTFILE: " + added.error().message};
  }
  return Allocation{Scheduler::kSge, variable(around, "JOB_ID"), hosts.take(), "PE_HOSTFILE", ""};
}

}  // namespace elastictrain::launcher::batch
