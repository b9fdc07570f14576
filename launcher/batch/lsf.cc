#include <algorithm>

#include "launcher/batch/systems.h"

namespace elastictrain::launcher::batch {
namespace {

// "hostA 2 hostB 1"
Status collect_pairs(std::string_view text, HostCollector& hosts) {
  const auto next_word = [&text] {
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(word.size());
    return word;
  };
  for (std::string_view name = next_word(); !name.empty(); name = next_word()) {
    const auto slots = read_slots(next_word());
    if (!slots) return slots.error();
    const Status added = hosts.add(name, *slots);
    if (!added) return added;
  }
  return {};
}

Status collect_hosts(const BatchSurroundings& around, const std::string& source, HostCollector& hosts) {
  const std::string value = variable(around, source);
  if (source == "LSB_MCPU_HOSTS") return collect_pairs(value, hosts);
  if (source == "LSB_HOSTS") return collect_tokens(value, " ", hosts);
  const auto text = around.read_file(value);
  return text ? collect_tokens(*text, "\r\n", hosts) : Status(text.error());
}

}  // namespace

Result<Allocation> read_lsf(const BatchSurroundings& around) {
  for (const std::string source : {"LSB_DJOB_HOSTFILE", "LSB_MCPU_HOSTS", "LSB_HOSTS"}) {
    if (variable(around, source).empty()) continue;
    HostCollector hosts;
    const Status read = collect_hosts(around, source, hosts);
    if (!read) return Error{read.error().code, source + ": " + read.error().message};
    return Allocation{Scheduler::kLsf, variable(around, "LSB_JOBID"), hosts.take(), source, ""};
  }
  return Error{ErrorCode::kInvalid, "neither LSB_DJOB_HOSTFILE nor LSB_MCPU_HOSTS nor LSB_HOSTS is set"};
}

}  // namespace elastictrain::launcher::batch
