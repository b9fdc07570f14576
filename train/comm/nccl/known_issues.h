// Purpose: the known defects of a version of NCCL that affect swaps of communicators. Pure.
// Source: NVIDIA/nccl issues and the release notes of NVIDIA's resiliency extension, as named in each line.
#pragma once

#include <string>
#include <vector>

namespace elastictrain::comm {

// `version` as returned by ncclGetVersion: 22809 for 2.28.9.
std::vector<std::string> known_nccl_issues(int version);

// Whether its RAS service crashes the process.
bool nccl_ras_crashes(int version);

}  // namespace elastictrain::comm
