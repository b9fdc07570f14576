// Purpose: audit mode: records of the positions that this worker used in each committed step, and their reports.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "supervisor/protocol/worker_messages.h"
#include "train/session/generation.h"
#include "train/session/lifecycle.h"
#include "train/session/run_progress.h"
#include "train/session/step_buckets.h"
#include "train/state/progress.h"
#include "train/state/sampler.h"
#include "train/state/state_buffers.h"

// The records of audit mode: which positions this worker used in each committed step, queued for the
// supervisor, and how the last steps were divided, so that survivors can report the shares of a worker that was lost.
//
// Ownership: the session. Thread: any. Failure: a worker whose agent is away for long drops its oldest records; the gap
// in the step numbers shows it.

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
  // `counted_anew`: of its epochs, where they were counted in other units before; else 0.
  void add_state(Generation generation, const state::Progress& progress, std::uint64_t counted_anew = 0);
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

// Audit mode: which positions this worker used, reported step by step, and on behalf of workers that leave or
// are lost, because they or this worker may be gone before anyone else can.
//
// Ownership: the worker. Thread: the training thread; waiting() on any. Failure: state that cannot be read for its hash
// ends the session.

class ControlPlane;

class Audits {
 public:
  struct Parts {
    WorkerId self;
    std::uint64_t hash_every;  // steps; 0: no audit
    bool keeps_inputs;         // a repeated step counts the shares of the holders
    ControlPlane* plane;       // null without a launcher: nothing is audited
    const state::StateBuffers& buffers;
    const Assignment& assignment;
    const RunProgress& run_progress;
    Lifecycle& lifecycle;
  };
  explicit Audits(const Parts& parts) : parts_(parts) {}

  void step_committed(OpenStep step);
  // The state came from other workers. They report what led to it, unless all of them are lost.
  void state_received();
  // This worker has read the checkpoint from which the run continues.
  void account_for_checkpoint(bool is_counted_anew);
  // An epoch of which the rest is dropped.
  void account_for(const state::Progress& dropped) { log_.add_state(parts_.assignment.generation, dropped); }
  // The shares of the assignment before a planned change.
  void remember(std::vector<state::WorkerShare> shares) { shares_before_ = std::move(shares); }

  bool is_on() const { return parts_.hash_every != 0; }

  // Sends all pending records.
  void report();
  // Includes what heartbeats have reported so far: a new joiner cannot report these steps if the others are lost, and a
  // leaver may end with its host before its last messages are sent.
  void report_leavers();
  // The records of members whose shares counted in steps that they can no longer report. Each of `holders` does it,
  // because any of them may be lost next. `before`: the shares of the assignment that is void.
  void report_lost(const std::vector<state::WorkerShare>& before, const std::vector<WorkerId>& holders);

  // Takes the pending records.
  std::vector<protocol::WorkerToAgent> waiting();

 private:
  struct Received {
    Generation generation = 0;
    state::Progress progress;
  };

  std::optional<std::uint64_t> hash_of(const OpenStep& step);

  const Parts parts_;
  AuditLog log_;
  std::vector<state::WorkerShare> shares_before_;  // those of the assignment before a planned change
  std::optional<Received> received_;               // from others; until it is reported
};

}  // namespace elastictrain::session
