// Purpose: the report of NCCL's RAS service in plain words: which ranks are behind, closing, broken or not heard of.
//
// Pure. Whatever comes in, what goes out is bounded in lines and length and holds no bytes of a report but numbers,
// names of collectives and addresses. A report that broke off gives what it had said until then. Source: what STATUS
// and VERBOSE STATUS print, NCCL 2.24 to 2.30 (src/ras/client_support.cc).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace elastictrain::launcher {

// Empty where the text is not a report.
std::vector<std::string> explain_ras_report(std::string_view report);

}  // namespace elastictrain::launcher
