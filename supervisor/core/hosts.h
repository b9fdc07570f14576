// Purpose: the hosts that a run may use: those on the list, those that leave, and the agents that are launched and
// released for them. A host that was drained keeps its record, without a running agent, for as long as it is on the
// list: so it is not launched again, by this supervisor or by one that takes the run over. A cluster's lease names
// hosts and slots, and with them the size; processes that a shrink has left warm end when their slot is needed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/core/run.h"

namespace elastictrain::core {

// HostSlots::only for a record: nothing if it is empty.
std::optional<std::vector<std::uint32_t>> only_of(const std::vector<std::uint32_t>& only);

void on(Run& run, const HostsOffered& event);
void on(Run& run, const HostNoticed& event);
// A run with fewer slots than it needs waits if it has not begun, and leaves with a checkpoint if it trains; one that
// is to stand still keeps them.
void on(Run& run, const LeaseGiven& event);
void on(Run& run, const WarmReported& event);
// Workers may be started there again; an agent that has ended, or was told to, gets a successor.
void undrain_host(Run& run, Agent& agent);
void stop_agent(Run& run, Agent& agent);
void release_agents(Run& run);
std::string unreachable_hosts(const Run& run);
// Halts the workers where they are, if the lease is to stand still.
void halt_for_lease(Run& run);
// Ends the warm processes whose slot is needed, or must not be used any more.
void end_unneeded_warm(Run& run);

}  // namespace elastictrain::core
