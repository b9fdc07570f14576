// Purpose: what is known to be broken in a version of NCCL, for those who swap its communicators. Pure.
// Source: NVIDIA/nccl issues and the release notes of NVIDIA's resiliency extension, as named in each line.
#pragma once

#include <string>
#include <vector>

namespace elastictrain::comm {

// `version` as ncclGetVersion gives it: 22809 for 2.28.9.
std::vector<std::string> known_nccl_issues(int version);

// Whether its RAS service takes the process down.
bool nccl_ras_crashes(int version);

}  // namespace elastictrain::comm
