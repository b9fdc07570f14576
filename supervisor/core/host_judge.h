// Purpose: blames hosts for losses, and trusts them again when they train.
//
// Ownership and thread: those of the state machine.
#pragma once

#include "supervisor/core/event.h"
#include "supervisor/core/failure_budget.h"
#include "supervisor/core/roster.h"

namespace elastictrain::core {

class HostHealth;
class Outbox;
struct Training;

class HostJudge {
 public:
  HostJudge(Roster& roster, Outbox& out, Training& training, HostHealth& health);

  void blame(const Loss& loss);
  void judge_success();

 private:
  Roster& roster_;
  Outbox& out_;
  Training& training_;
  HostHealth& health_;
};

}  // namespace elastictrain::core
