// Purpose: the records of audit mode: which positions this worker used in each committed step, queued for the
// supervisor, and how the last steps were divided, so that survivors can report the shares of a worker that was lost.
//
// Ownership: the session. Thread: any. Failure: a worker whose agent is away for long drops its oldest records; the gap
// in the step numbers shows it.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "supervisor/protocol/worker_messages.h"
#include "train/state/progress.h"
#include "train/state/sampler.h"

namespace elastictrain::session {

// A committed step and the shares of all workers that took part in it.
struct AuditedStep {
  Generation generation = 0;
  Step step = 0;
  state::Cut cut;
  std::vector<state::WorkerShare> shares;  // as the step was divided
  std::vector<WorkerId> holders;           // whose shares count
  bool all_count = true;                   // `holders` is empty then
};

class AuditLog {
 public:
  static constexpr std::size_t kRemembered = 8192;  // steps
  // `state_hash`: nullopt if this step is not hashed.
  void add(AuditedStep step, WorkerId self, std::optional<std::uint64_t> state_hash);
  // The positions of its epoch that the checkpoint, or the received state, with this progress covers.
  void add_state(Generation generation, const state::Progress& progress);
  // The positions that `worker` used in the last committed steps, as far as this log remembers, reported on its behalf.
  void add_for(WorkerId worker, std::size_t max_steps = kRemembered);
  // Takes all pending records.
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
