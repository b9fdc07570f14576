#include "heuristics/registry/registry.h"

#include <algorithm>

#include "heuristics/autoscale/or_engine.h"
#include "heuristics/autoscale/provisioning.h"
#include "heuristics/autoscale/search_policy.h"
#include "heuristics/batch/adasgd.h"
#include "heuristics/batch/noise_batch.h"
#include "heuristics/goodput/goodput_policy.h"
#include "heuristics/interference/policy.h"
#include "heuristics/policy/policy.h"
#include "heuristics/scavenger/scavenger_policy.h"
#include "heuristics/straggler/policy.h"

namespace elastictrain::heuristics {

const std::vector<PolicySpec>& policies() {
  static const std::vector<PolicySpec> kAll{fixed_policy(),        efficiency_policy(),   cost_policy(),
                                            or_policy(),           provisioning_policy(), noise_batch_policy(),
                                            scavenger_policy(),    goodput_policy(),      adasgd_policy(),
                                            interference_policy(), straggler_policy()};
  return kAll;
}

const PolicySpec* find_policy(const std::string& name) {
  const auto& all = policies();
  const auto found = std::find_if(all.begin(), all.end(), [&](const PolicySpec& spec) { return spec.name == name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace elastictrain::heuristics
