// Purpose: the compressed texts of batch systems, as pure functions: host lists (`n[1-3,07]-ib,login`, of Slurm and
// Flux: any number of brackets in a name, zero padding kept) and counts (`4(x2),1`, of Slurm).
//
// Thread: any. Errors: text that cannot be read, and lists that are larger than any machine, before memory is
// allocated.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/host_source.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::launcher {

inline constexpr std::size_t kMaxAllocatedHosts = 65'536;

// Every name is one that is_host_name() takes.
Result<std::vector<std::string>> expand_hostlist(std::string_view text);

// At most as many numbers as hosts.
Result<std::vector<std::uint32_t>> expand_counts(std::string_view text);

// A number from 1 to kMaxSlotsPerHost and nothing else.
Result<std::uint32_t> read_slots(std::string_view text);

// Names with slots; slots of a repeated name are added up. Errors: an invalid name or number.
class HostCollector {
 public:
  Status add(std::string_view name, std::uint32_t slots);
  std::vector<Host> take() { return std::move(hosts_); }
  bool empty() const { return hosts_.empty(); }

 private:
  std::vector<Host> hosts_;
  std::map<std::string, std::size_t, std::less<>> places_;
};

}  // namespace elastictrain::launcher
