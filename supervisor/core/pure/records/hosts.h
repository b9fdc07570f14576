// Purpose: records about hosts and their agents.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "supervisor/core/pure/records/record_fields.h"
#include "supervisor/protocol/ids.h"

namespace elastictrain::core::record {

struct HostPollFailed {
  std::string reason;
};
ET_RECORD(HostPollFailed, "host_poll_failed", "The source of hosts could not be read.", ET_FIELD(reason))

struct HostOffered {
  std::string host;
  std::uint32_t slots = 0;
  AgentId agent;
  std::optional<std::vector<std::uint32_t>> only;  // numbers of the slots that the run may use; left out: all
};
ET_RECORD(HostOffered, "host_offered",
          "A host is on the list of hosts, and an agent is launched on it. `only`: the slots that the run may use, if "
          "not all.",
          ET_FIELD(host), ET_FIELD(slots), ET_FIELD(agent), ET_FIELD(only).since(4))

struct HostAgain {
  std::string host;
  std::uint32_t slots = 0;
  AgentId agent;
  std::optional<std::vector<std::uint32_t>> only;
};
ET_RECORD(HostAgain, "host_again", "A new agent is launched on a host whose agent was lost.", ET_FIELD(host),
          ET_FIELD(slots), ET_FIELD(agent), ET_FIELD(only).since(4))

struct HostSlotsChanged {
  std::string host;
  std::uint32_t slots = 0;
  std::optional<std::vector<std::uint32_t>> only;
};
ET_RECORD(HostSlotsChanged, "host_slots", "The list of hosts, or the lease, gives the run other slots of a host.",
          ET_FIELD(host), ET_FIELD(slots), ET_FIELD(only).since(4))

struct HostVanished {
  std::string host;
};
ET_RECORD(HostVanished, "host_vanished", "A host is no longer on the list of hosts: its workers leave.", ET_FIELD(host))

struct HostBack {
  std::string host;
};
ET_RECORD(HostBack, "host_back", "A host is on the list of hosts again.", ET_FIELD(host))

struct HostNotice {
  std::string host;
  AgentId agent;
  std::string reason;
};
ET_RECORD(HostNotice, "notice", "A host is about to go away: its workers leave.", ET_FIELD(host), ET_FIELD(agent),
          ET_FIELD(reason))

struct HostReleased {
  std::string host;
  AgentId agent;
};
ET_RECORD(HostReleased, "host_released", "A host that is drained has no workers left; its agent is stopped.",
          ET_FIELD(host), ET_FIELD(agent))

struct HostUnneeded {
  std::string host;
  AgentId agent;
  std::string reason;
};
ET_RECORD(HostUnneeded, "host_unneeded",
          "A host that came by itself is not used, and never will be: its agent is stopped, and its command ends.",
          ET_FIELD(host), ET_FIELD(agent), ET_FIELD(reason))

struct HostCooled {
  std::string host;
  std::uint32_t failures = 0;
  std::int64_t for_ms = 0;
  std::string reason;
};
ET_RECORD(HostCooled, "host_cooled", "A host failed repeatedly; nothing is started on it for a while.", ET_FIELD(host),
          ET_FIELD(failures), ET_FIELD(for_ms), ET_FIELD(reason))

struct AgentHello {
  AgentId agent;
  std::string host_name;
  std::int64_t pid = 0;
  std::uint32_t cores = 0;
  std::uint64_t memory_bytes = 0;
  std::int64_t clock_difference_us = 0;
};
ET_RECORD(AgentHello, "agent_hello", "What an agent reports about its host when it connects.", ET_FIELD(agent),
          ET_FIELD(host_name), ET_FIELD(pid), ET_FIELD(cores), ET_FIELD(memory_bytes), ET_FIELD(clock_difference_us))

struct AgentConnected {
  std::string host;
  AgentId agent;
};
ET_RECORD(AgentConnected, "agent_connected", "An agent is up.", ET_FIELD(host), ET_FIELD(agent))

struct AgentSuspect {
  std::string host;
  std::uint64_t silent_ms = 0;
};
ET_RECORD(AgentSuspect, "agent_suspect", "An agent is silent; it is not given up yet.", ET_FIELD(host),
          ET_FIELD(silent_ms))

struct AgentHealthy {
  std::string host;
  AgentId agent;
};
ET_RECORD(AgentHealthy, "agent_healthy", "An agent that was suspect reports again.", ET_FIELD(host), ET_FIELD(agent))

struct AgentCutOff {
  std::string host;
  AgentId agent;
  std::string reason;
};
ET_RECORD(AgentCutOff, "agent_cut_off", "The connection to an agent broke; it and its workers may still run.",
          ET_FIELD(host), ET_FIELD(agent), ET_FIELD(reason))

struct AgentBack {
  std::string host;
  AgentId agent;
};
ET_RECORD(AgentBack, "agent_back", "An agent connected again.", ET_FIELD(host), ET_FIELD(agent))

struct AgentLost {
  std::string host;
  AgentId agent;
  std::string reason;
};
ET_RECORD(AgentLost, "agent_lost", "An agent and its workers are given up.", ET_FIELD(host), ET_FIELD(agent),
          ET_FIELD(reason))

struct AgentEnded {
  std::string host;
  AgentId agent;
  std::string reason;
};
ET_RECORD(AgentEnded, "agent_ended", "An agent ended as it was told to.", ET_FIELD(host), ET_FIELD(agent),
          ET_FIELD(reason))

struct KeptWarm {
  WorkerId worker;
  std::string host;
  std::uint32_t slot = 0;
  std::int64_t pid = 0;
};
ET_RECORD(KeptWarm, "kept_warm", "The process of a worker that a shrink let go stays, to be another worker.",
          ET_FIELD(worker), ET_FIELD(host), ET_FIELD(slot), ET_FIELD(pid))

struct WarmEnded {
  WorkerId worker;
  std::string host;
};
ET_RECORD(WarmEnded, "warm_ended", "A process that was kept ends, or has ended.", ET_FIELD(worker), ET_FIELD(host))

struct Collectives {
  std::string host;
  std::vector<std::string> lines;
};
ET_RECORD(Collectives, "collectives", "NCCL's report on the collectives of the job.", ET_FIELD(host), ET_FIELD(lines))

using HostRecords =
    RecordList<HostPollFailed, HostOffered, HostAgain, HostSlotsChanged, HostVanished, HostBack, HostNotice,
               HostReleased, HostUnneeded, HostCooled, AgentHello, AgentConnected, AgentSuspect, AgentHealthy,
               AgentCutOff, AgentBack, AgentLost, AgentEnded, KeptWarm, WarmEnded, Collectives>;

}  // namespace elastictrain::core::record
