// Purpose: the audit of a run: which samples counted in which step, and whether all workers held the same state.
//
// Ownership and thread: those of the state machine.
#pragma once

#include <string>
#include <vector>

#include "supervisor/core/ledger.h"
#include "supervisor/core/outbox.h"
#include "supervisor/protocol/worker_messages.h"

namespace elastictrain::core {

class Audit {
 public:
  explicit Audit(Outbox& out) : out_(out) {}

  void record(WorkerId worker, const protocol::WorkerAudit& account);
  // What generations before this one used from here on is void.
  void fence(const protocol::Fence& begun);
  // At the end of the run. `cut_off`: workers of a run that failed, which ended within their steps. What failed, as a
  // sentence; empty: every sample counted once, and all states were equal.
  std::string summarize(const std::vector<WorkerId>& cut_off);

  Ledger& ledger() { return ledger_; }

 private:
  void report(WorkerId worker, const std::vector<std::string>& violations);

  Outbox& out_;
  Ledger ledger_;
};

}  // namespace elastictrain::core
