// Purpose: the texts in which users name hosts, as pure functions. A host file has one host per line, `host`,
// `host slots=4` or `host:4`; `job=7` after it names the batch system's
// job that the host belongs to, where that is not this process's own; `#` starts a comment; IPv6 addresses with slots
// stand in brackets, `[fd00::1]:4`. An inline list is the same forms joined by commas. Names are checked, so that none
// can be taken for an option.
//
// Thread: pure functions. Failure: the first bad line, as "where:line: what".
#pragma once

#include <string_view>
#include <vector>

#include "launcher/host_source.h"

namespace elastictrain::launcher {

// Slots of one host above this are taken for a typing error.
inline constexpr std::uint32_t kMaxSlotsPerHost = 4096;

// `where` names the text in messages (a file's path, a command); repeated lines of one host add their slots up.
Result<std::vector<Host>> parse_hostfile(std::string_view text, const std::string& where);

// What parse_hostfile() reads as these hosts.
std::string hostfile_text(const std::vector<Host>& hosts);

// `a:2,b,[fd00::1]:4`
Result<std::vector<Host>> parse_host_list(std::string_view list);

// Letters, digits and `.-_:%`, not starting with `-`; what ssh and the resolver can take.
bool is_host_name(std::string_view name);

}  // namespace elastictrain::launcher
