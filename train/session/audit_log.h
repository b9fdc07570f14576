// Purpose: what audit mode has to tell: which positions this worker used in each committed step, on their way to the
// supervisor, and how the last steps were cut, so that survivors can tell it for a worker that cannot any more.
//
// Ownership: the session. Thread: any. Failure: a worker whose agent is away for long forgets its oldest records; the
// gap in the steps shows it.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "supervisor/protocol/message.h"
#include "train/state/progress.h"
#include "train/state/sampler.h"

namespace elastictrain::session {

// A committed step, with the parts of all who took part in it.
struct AuditedStep {
  Generation generation = 0;
  Step step = 0;
  state::Cut cut;
  std::vector<state::WorkerShare> shares;  // as the step was cut
  std::vector<WorkerId> holders;           // whose parts count
  bool all_count = true;                   // then `holders` is empty
};

class AuditLog {
 public:
  static constexpr std::size_t kRemembered = 8192;  // steps
  // `state_hash`: nothing where this step is not hashed.
  void add(AuditedStep step, WorkerId self, std::optional<std::uint64_t> state_hash);
  // What the checkpoint, or the state, of this progress holds of its epoch.
  void add_state(Generation generation, const state::Progress& progress);
  // What `worker` used in the last committed steps, as far as they are remembered, to be told on its behalf.
  void add_for(WorkerId worker, std::size_t most_steps = kRemembered);
  // Everything that waits.
  std::vector<protocol::WorkerAudit> take();

 private:
  static constexpr std::size_t kMaxWaiting = 100'000;

  std::mutex mutex_;
  std::uint64_t batches_ = 0;
  std::deque<protocol::AuditStep> waiting_;
  std::vector<protocol::WorkerAudit> waiting_for_others_;
  std::deque<AuditedStep> remembered_;
};

}  // namespace elastictrain::session
