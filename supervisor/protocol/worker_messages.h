// Purpose: the messages between a worker and its supervisor. Plain data; codec.h turns them into bytes.
//
//   supervisor  <-- TLS, one TCP connection per agent -->  agent  <-- one Unix socket per worker -->  worker
//
// The agent relays them (agent_messages.h). Every message about a membership carries its generation, and a stale one
// changes nothing. Units are in the names; durations are 64-bit integers.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/plan_messages.h"
#include "supervisor/protocol/step_metrics.h"

namespace elastictrain::protocol {

// ---------------------------------------------------------------------------------------------------------------
// Worker -> supervisor

struct WorkerHello {
  std::uint32_t protocol_version = 0;
  WorkerId worker;
  std::int64_t pid = 0;
  std::string library_version;
};

// How a program divides its data into steps. Every worker computes it for itself, so it must be equal on all.
struct DataDivision {
  bool is_known = false;  // false from a library that does not say
  std::uint64_t seed = 0;
  bool shuffle = true;
  std::uint32_t min_local_samples = 0;
  bool drop_last = false;
  std::uint32_t batches_per_step = 1;  // a configured batch is that of one of them
};

// The program has built its model, registered its state and can start. Sent once.
struct WorkerReady {
  Endpoint endpoint;
  std::uint64_t state_bytes = 0;
  std::uint64_t state_layout_hash = 0;  // names, order and sizes; must be equal on all workers
  std::uint64_t sample_count = 0;       // per epoch; 0: the program brings its own data order
  std::uint32_t batch = 0;              // of one worker in a step, as the program says; 0: it does not say
  std::uint64_t epochs = 0;             // that the program trains for; 0: it does not say
  std::uint64_t max_steps = 0;          // after which it ends earlier; 0: it does not
  DataDivision division;
  std::string state_items;    // one line for each item of the state, the first ones as far as they fit (limits.h)
  bool batch_of_all = false;  // `batch` is that of all workers together
};

struct WorkerPrepared {
  Generation generation = 0;
};

struct WorkerPrepareFailed {
  Generation generation = 0;
  std::string reason;
};

// This worker has swapped: `first_step` is the first step it takes part in under `generation`.
struct WorkerActive {
  Generation generation = 0;
  Step first_step = 0;
  std::uint64_t state_transfer_bytes = 0;  // received (joiner) or sent (donor); may still be in flight for a donor
};

// Last message of a leaver: it committed `last_step` and takes no part in `generation`.
struct WorkerLeft {
  Generation generation = 0;
  Step last_step = 0;
};

// Answer to Abort, or sent unasked when a collective failed (`fence` 0): the worker takes part in no collective of
// `generation` or an older one any more, and `committed_step` does not change before a recovery.
struct WorkerHalted {
  Generation fence = 0;       // of the Abort that this message answers
  Generation generation = 0;  // the worker's current one; 0: none yet
  Step committed_step = 0;
  bool has_state = false;  // it holds the complete state of `committed_step`
  bool in_loop = false;    // start() has returned: it can become a joiner again, but not go back to the start
  std::string reason;      // what failed, for people; empty in an answer
  // False for a worker that received the state of `committed_step` in a recovery and has not committed a step since:
  // its part of the next step returned to the pool with the assignment that it took. It holds the state like any other,
  // but it joins again while other workers are left that also hold the gradients.
  bool has_gradients = true;
  // Values or calls that must be equal on all ranks are not: `reason` says which. Answered by Disagreed if no member is
  // newer than the others.
  bool disagrees = false;
};

// The program reached its end (all epochs, or its own stop condition).
struct WorkerFinished {
  Step last_step = 0;
  bool alone = false;  // by itself: not with the collective at the end of the data, in which all take part
};

// Where the training thread is. A long kOutside (an evaluation) or kCheckpoint is not a hang; a worker in kReducing
// waits for others.
enum class StepPlace : std::uint8_t { kStarting, kOutside, kComputing, kReducing, kUpdating, kCheckpoint, kHalted };

// What the program says it is doing that may take long, inside or outside of a step (Session::phase()).
enum class ProgramPhase : std::uint8_t { kNone, kData, kEvaluation, kCompile, kCheckpoint };

// The worker's GPU as its driver counts it, over all processes that use it, and what the session holds there: copies of
// gradients from which a step is repeated, and memory for sums. 0 bytes in all: no GPU, or its memory is not known.
struct DeviceMemoryUse {
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;
  std::uint64_t copies_bytes = 0;
  std::uint64_t sums_bytes = 0;
  bool operator==(const DeviceMemoryUse&) const = default;
};

// Liveness and progress, separately: `sequence` grows with every heartbeat (also during a long step), `step` only with
// committed steps. `mean` is over the `steps` since the last heartbeat; 0 steps leave it at 0.
struct WorkerHeartbeat {
  std::uint64_t sequence = 0;
  Generation generation = 0;
  Step step = 0;
  std::uint64_t epoch = 0;
  std::uint32_t steps = 0;
  StepMetrics mean;
  double samples_per_s = 0;  // of the whole job
  double loss = 0;           // of the whole job, last committed step
  double epoch_fraction = 0;
  double gradient_norm = 0;  // of the averaged gradient
  StepPlace place = StepPlace::kStarting;
  std::uint64_t place_ms = 0;      // time spent there, in the present phase, so far
  std::uint64_t samples_used = 0;  // of the whole job, committed, over all epochs
  // Squared gradient norms, means over `norm_steps` of these steps: over all workers of their own gradients, and of the
  // averaged one. Known only to the first rank. A single worker has those of two halves of its batch for its own.
  std::uint32_t norm_steps = 0;
  double local_square = 0;
  double global_square = 0;
  // Means over the same gradients of 1 / samples. 0: of the shares of the generation's plan.
  double local_inverse_batch = 0;
  double global_inverse_batch = 0;
  // To the farthest of the workers on other hosts that this one has a connection to, the minimum that the kernel
  // measured; 0: not known.
  double round_trip_us = 0;
  ProgramPhase phase = ProgramPhase::kNone;
  // Of the whole job, the mean over the samples of the steps since the last heartbeat that had a loss; 0 samples: none
  // had one, or the worker's library is older.
  double mean_loss = 0;
  std::uint64_t loss_samples = 0;
  DeviceMemoryUse device;
};

// Audit mode. Positions are places in the epoch's permutation, so [first, first+count) names exactly the samples.
struct AuditStep {
  Generation generation = 0;
  Step step = 0;
  std::uint64_t epoch = 0;
  std::uint64_t first_position = 0;
  std::uint64_t count = 0;
  bool hashed = false;
  std::uint64_t state_hash = 0;
  bool operator==(const AuditStep&) const = default;
};
// A step that takes returned samples has several pieces: one AuditStep for each, the first of them with the hash. Each
// worker numbers its batches from 1, so that a batch that is repeated after a broken connection counts once.
//
// A lost member, or one that adopts a step it did not finish, cannot report which samples it used in the last committed
// steps. So every survivor of a recovery reports it for the members that did not survive with it: `of` names the worker
// whose steps these are, ascending, the latest ones up to the last committed step. A report about steps that are
// already known (from the worker itself, or from another survivor) is equal and is dropped.
struct WorkerAudit {
  std::vector<AuditStep> steps;
  std::uint64_t batch = 0;  // numbered by the sender, also when it reports for another
  WorkerId of;              // none: the sender itself
  // The content of a checkpoint, reported by the worker that read it, or the state that a joiner received, reported
  // when a member of its first generation is lost: the workers that used these positions may be gone with their last
  // records. These entries do not say which worker used them when, so none of them counts as repeated.
  bool from_checkpoint = false;
  // Above 0: from that checkpoint on samples are counted in other units (replicas of several processes had another
  // size), and an epoch has so many of them.
  std::uint64_t counted_anew = 0;
};

// A named number or text that the program writes to the journal (test accuracy, for example).
struct WorkerNote {
  std::string key;
  std::string value;
};

// Requests of the program to its run, sent by the first rank. Limits apply as for a user's request. A field that is 0
// or empty keeps its value; names are those of names.h.
struct WorkerRequest {
  std::uint32_t workers = 0;
  std::uint32_t per_worker = 0;     // samples
  double learning_rate_factor = 0;  // replaces the rule's
  std::string topology;
  std::string synchronization;
};

// The cost of the change to `generation` for a survivor, reported some steps after it: from its last commit before the
// change to its first one after it, and a typical step at the new size.
struct WorkerSwap {
  Generation generation = 0;
  double gap_us = 0;
  double step_us = 0;  // median; without the first step
};

// From a worker that starts: which epoch is the run in? Answered by RunEpoch.
struct WorkerAsksEpoch {};

// From a worker in no generation: it cannot join, and ends; by itself if it has not said WorkerReady.
struct WorkerDeclines {
  std::string reason;
};

// The board: small values by key that the supervisor keeps for the workers of a run, whether they are members or not.
// Both are answered by BoardAnswer with the same number. Numbers grow; a worker repeats what is not answered, and a
// value that the board has already from this worker, or a later one, changes nothing.
struct BoardPut {
  std::uint64_t number = 0;
  std::string key;
  std::string value;
};
// Answered as soon as there is a value, or when the time is over.
struct BoardGet {
  std::uint64_t number = 0;
  std::string key;
  std::uint32_t wait_ms = 0;
};

// Last message of a rank of an MPI pool, whose process must not exit while others use MPI: this worker has ended, and
// its process waits to become another one (Reassigned). The agent keeps it and reports WorkerExited with success.
struct WorkerParked {
  Step last_step = 0;
};

// What a worker sends.
using WorkerToAgent =
    std::variant<WorkerHello, WorkerReady, WorkerPrepared, WorkerPrepareFailed, WorkerActive, WorkerLeft,
                 WorkerFinished, WorkerHeartbeat, WorkerAudit, WorkerNote, WorkerSwap, WorkerHalted, WorkerRequest,
                 WorkerParked, WorkerAsksEpoch, BoardPut, BoardGet, WorkerDeclines>;
// What its agent forwards. Heartbeats travel in the agent's report, and WorkerParked ends at the agent.
using WorkerUp = std::variant<WorkerHello, WorkerReady, WorkerPrepared, WorkerPrepareFailed, WorkerActive, WorkerLeft,
                              WorkerFinished, WorkerAudit, WorkerNote, WorkerSwap, WorkerHalted, WorkerRequest,
                              WorkerAsksEpoch, BoardPut, BoardGet, WorkerDeclines>;

// ---------------------------------------------------------------------------------------------------------------
// Supervisor -> worker

struct Prepare {
  GenerationPlan plan;
};
// Sent once every member of `generation` is prepared; from here on the change cannot be cancelled.
struct Commit {
  Generation generation = 0;
};
// Before commit only: drop the prepared communicator of `generation`.
struct Cancel {
  Generation generation = 0;
};
// To a worker in no generation (joiner, spare): exit now, with success.
struct Dismiss {
  std::string reason;
};

// Ends every collective and every prepared plan of the generations up to `fence`, committed or not, at once. Answered
// by one WorkerHalted with the same fence as soon as the worker's last step is settled.
struct Abort {
  Generation fence = 0;
  std::string reason;
};

// From the agent itself, once: its supervisor has been away for the orphan grace, so that no plan can arrive any more.
// A worker in a generation requests the end at the next step boundary, with a checkpoint; a halted one writes that of
// its committed step; one in no generation exits. After the grace the rest is ended with TERM, then KILL.
struct Orphaned {
  std::string reason;
};

// From the agent itself, instead of starting a process: the parked process is this worker from here on. It sends
// WorkerHello and WorkerReady again and waits for an assignment, as a new one does.
struct Reassigned {
  WorkerId worker;
};

// As the members have last reported it; the run may be past it. 0 also where nobody trains.
struct RunEpoch {
  std::uint64_t epoch = 0;
};

struct BoardAnswer {
  std::uint64_t number = 0;
  bool found = false;
  std::string value;
  std::string problem;  // why a value was refused
};

// To a worker that has reported a disagreement in `generation`: no member is newer than the others, so its program
// fails.
struct Disagreed {
  Generation generation = 0;
  std::string reason;
};

using WorkerDown =
    std::variant<Prepare, Commit, Cancel, Dismiss, Abort, Orphaned, Reassigned, RunEpoch, BoardAnswer, Disagreed>;

}  // namespace elastictrain::protocol
