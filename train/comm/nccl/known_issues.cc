#include "train/comm/nccl/known_issues.h"

#include <algorithm>
#include <iterator>

namespace elastictrain::comm {
namespace {

struct Issue {
  int first;
  int last;
  const char* text;
};

constexpr Issue kIssues[] = {
    {0, 21799, "older than 2.18: it cannot be built in the background"},
    {22602, 22602, "crashes in its RAS thread (nccl#1669); workers get NCCL_RAS_ENABLE=0"},
    {22707, 22707, "crashes in its RAS thread (nccl#1996); workers get NCCL_RAS_ENABLE=0"},
    {22803, 22808, "crashes when communicators are rebuilt in a running process (fixed in 2.28.9)"},
    {22809, 22809, "reported to crash on V100 (nccl#2159) and after a million collectives on DGX Spark (nccl#2213)"},
};

constexpr int kRasCrashes[] = {22602, 22707};

}  // namespace

bool nccl_ras_crashes(int version) {
  return std::find(std::begin(kRasCrashes), std::end(kRasCrashes), version) != std::end(kRasCrashes);
}

std::vector<std::string> known_nccl_issues(int version) {
  std::vector<std::string> found;
  for (const Issue& issue : kIssues) {
    if (version >= issue.first && version <= issue.last) found.emplace_back(issue.text);
  }
  return found;
}

}  // namespace elastictrain::comm
