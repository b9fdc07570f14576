// Purpose: a cluster's demand for slots, as the source of helper jobs takes it. Pure.
#pragma once

#include "launcher/expansion.h"
#include "supervisor/cluster/core/cluster.h"

namespace elastictrain::cli {

inline launcher::HostDemand demand_of(const jobs::SlotDemand& given) {
  launcher::HostDemand demand;
  demand.needed_slots = given.needed;
  demand.can_vacate = true;
  for (const auto& host : given.hosts) demand.hosts.push_back({host.name, host.slots, host.used, host.slots > 0});
  return demand;
}

}  // namespace elastictrain::cli
