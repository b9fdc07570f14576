// Purpose: the hosts that a run may use: those on the list, those that leave, and the agents that are launched and
// released for them. A host that was drained keeps its record, without a running agent, for as long as it is on the
// list: so it is not launched again, by this supervisor or by one that takes the run over.
//
// Ownership and thread: those of the state machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/core/event.h"
#include "supervisor/core/roster.h"

namespace elastictrain::core {

struct Change;
struct DesiredState;
class Outbox;
struct RunSettings;
struct Startup;

// HostSlots::only for a record: nothing if it is empty.
std::optional<std::vector<std::uint32_t>> only_of(const std::vector<std::uint32_t>& only);

class HostList {
 public:
  HostList(const RunSettings& settings, Roster& roster, Outbox& out, Startup& startup, DesiredState& desired,
           Change& change);

  void on(const HostsOffered& event) { offer(event.hosts); }
  // The complete list.
  void offer(const std::vector<HostSlots>& hosts);
  void on(const HostNoticed& event);
  // Workers may be started there again; an agent that has ended, or was told to, gets a successor.
  void undrain(Agent& agent);
  void stop_agent(Agent& agent);
  void release_agents();
  std::string unreachable_hosts() const;

 private:
  void offer_host(const HostSlots& offered, std::uint32_t order, Agent* known);
  void launch(const HostSlots& offered, std::uint32_t order);
  void withdraw_host(Agent& agent);
  bool takes_no_host() const;
  void let_go(Agent& agent);

  const RunSettings& settings_;
  Roster& roster_;
  Outbox& out_;
  Startup& startup_;
  DesiredState& desired_;
  Change& change_;
};

}  // namespace elastictrain::core
