// Purpose: the report of NCCL's RAS service in plain text: which ranks are behind, closing, broken or silent.
//
// Pure. Whatever the input, the output is bounded in lines and length and holds no bytes of a report except numbers,
// names of collectives and addresses. An incomplete report gives what it contained until then. Source: the output of
// STATUS and VERBOSE STATUS, NCCL 2.24 to 2.30 (src/ras/client_support.cc).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace elastictrain::launcher {

// Empty if the text is not a report.
std::vector<std::string> explain_ras_report(std::string_view report);

}  // namespace elastictrain::launcher
