// Purpose: the past of a cluster once more, under its own policy or another one: the live state machine of the cluster
// decides, and runs that take as long for everything as they took then follow it. So it can be seen what a policy would
// have made of the same jobs, and whether a prediction for the policy that was there is true.
//
// The cluster knows at each moment what it would know live: jobs when they arrive, lengths and speeds when runs say
// them, starts of workers when they have been measured. Pure, deterministic, single-threaded.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/cluster/replay/past.h"

namespace elastictrain::cluster::replay {

struct Prediction {
  std::string policy;
  std::map<cluster_core::JobId, double> ended_s;
  std::vector<Given> given;
  std::optional<double> trained_share;  // of the slots' time
  std::string problem;                  // not empty: there is no prediction
};

// `policy`: a built-in one that gives whole slots.
Prediction replay(const Past& past, const std::string& policy);

// How the sizes that jobs were given agree: for each job by itself the longest series that both have in common.
struct Agreement {
  std::size_t equal = 0, of = 0;                     // changes of a job's slots; `of`: of the longer list
  std::optional<Given> first_live, first_predicted;  // where they part first; nothing on one side: it has no more
  bool all() const { return equal == of; }
};
Agreement agreement_of(const std::vector<Given>& live, const std::vector<Given>& predicted);

// In their order.
std::map<cluster_core::JobId, std::vector<Given>> by_job(const std::vector<Given>& given);
std::vector<std::uint32_t> sizes_of(const std::vector<Given>& given);

}  // namespace elastictrain::cluster::replay
