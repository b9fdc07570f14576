// Purpose: from the actual and the desired state to the next membership. It changes nothing: equal states give equal
// answers.
//
// Ownership and thread: those of the state machine.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "supervisor/core/event.h"
#include "supervisor/core/roster.h"
#include "supervisor/core/swap_plan.h"
#include "supervisor/protocol/plan_messages.h"

namespace elastictrain::core {

struct Change;
struct DesiredState;
class HostHealth;
class Outbox;
struct RunSettings;
struct Startup;
struct Training;
class WorkerControl;

struct ChangeDescription {
  protocol::ChangeKind kind = protocol::ChangeKind::kStart;
  std::string reason;
};

class Planner {
 public:
  Planner(const RunSettings& settings, const Roster& roster, const Outbox& out, const DesiredState& desired,
          const Startup& startup, const Training& training, const Change& change, const HostHealth& health,
          const WorkerControl& workers);

  std::uint32_t size_limit() const;
  std::uint32_t target_size_of() const;
  // Before the batch limits it.
  std::uint32_t asked_size() const;
  bool displaced(const Worker& worker) const;
  // Displaced, and its slot is not just exchanged for another one.
  bool gives_back(const Worker& worker) const;
  std::vector<Candidate> candidates() const;
  std::vector<Place> free_places() const;
  SwapInput swap_input() const;
  bool settling() const;
  bool all_reachable(const std::vector<WorkerId>& next) const;
  bool same_plan(const SwapDecision& decision) const;
  ChangeDescription describe(const SwapDecision& decision, std::size_t next_size) const;
  std::string unmet_text(const SwapDecision& decision, std::uint32_t want) const;

 private:
  bool yields_slot(const Worker& worker) const;
  CurrentMember current_member(WorkerId id) const;
  std::set<std::string> avoided_hosts() const;
  const std::string& size_reason() const;

  const RunSettings& settings_;
  const Roster& roster_;
  const Outbox& out_;
  const DesiredState& desired_;
  const Startup& startup_;
  const Training& training_;
  const Change& change_;
  const HostHealth& health_;
  const WorkerControl& workers_;
};

}  // namespace elastictrain::core
