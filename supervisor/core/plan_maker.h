// Purpose: writes the plan of the next generation, as it is sent and as it is recorded. It changes nothing.
//
// Ownership and thread: those of the state machine.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "supervisor/core/event.h"
#include "supervisor/core/records.h"
#include "supervisor/core/roster.h"
#include "supervisor/core/swap_plan.h"
#include "supervisor/protocol/plan_messages.h"

namespace elastictrain::core {

struct Change;
struct DesiredState;
struct Recovery;
struct RunSettings;
struct Training;

class PlanMaker {
 public:
  PlanMaker(const RunSettings& settings, const Roster& roster, const Training& training, const Change& change,
            const Recovery& recovery, const DesiredState& desired, std::function<Token()> make_token);

  protocol::GenerationPlan make() const;
  record::Prepare record_of(const protocol::GenerationPlan& plan) const;
  std::vector<WorkerId> addressees() const;

 private:
  bool joins(WorkerId id) const;
  bool some_state_goes_away() const;
  std::vector<double> speeds_of(const std::vector<PlanMember>& members) const;

  const RunSettings& settings_;
  const Roster& roster_;
  const Training& training_;
  const Change& change_;
  const Recovery& recovery_;
  const DesiredState& desired_;
  std::function<Token()> make_token_;
};

// Of the members, by rank.
std::vector<std::uint32_t> shares_of(const protocol::GenerationPlan& plan);

}  // namespace elastictrain::core
