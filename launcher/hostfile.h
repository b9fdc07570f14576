// Purpose: parses the texts in which users name hosts, as pure functions. A host file has one host per line: `host`,
// `host slots=4` or `host:4`; `job=7` after it names the batch system's job that the host belongs to, if that is not
// this process's own; `#` starts a comment; IPv6 addresses with slots are in brackets, `[fd00::1]:4`. An inline list
// has the same forms, separated by commas. Names are checked, so that none can be taken for an option.
//
// Thread: pure functions. Errors: the first bad line, as "where:line: what".
#pragma once

#include <string_view>
#include <vector>

#include "launcher/host_source.h"
#include "supervisor/protocol/host_name.h"

namespace elastictrain::launcher {

// A number above this is taken for a typing error.
inline constexpr std::uint32_t kMaxSlotsPerHost = 4096;

// `where` names the text in messages (a file's path, a command); slots of repeated lines of one host are added up.
Result<std::vector<Host>> parse_hostfile(std::string_view text, const std::string& where);

// A text that parse_hostfile() reads as these hosts.
std::string hostfile_text(const std::vector<Host>& hosts);

// `a:2,b,[fd00::1]:4`
Result<std::vector<Host>> parse_host_list(std::string_view list);

using protocol::is_host_name;

}  // namespace elastictrain::launcher
