// Purpose: all state of a run, in one place. Handlers change it; nothing else has state. What happens to a run is in
// the files beside it: starting, reconciling (with the planner), changing, losses, recovering, hosts, agents (with
// takeover), workers, requests, ending, snapshot. `membership.h` hands events to them.
//
// Ownership: one per run, held by Membership. Thread: any one thread at a time. Plain data, but for the mechanisms that
// keep their own books (hang detector, budgets, ledger, timers).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "supervisor/core/pure/action.h"
#include "supervisor/core/pure/event.h"
#include "supervisor/core/pure/failure_budget.h"
#include "supervisor/core/pure/failure_detector.h"
#include "supervisor/core/pure/invariants.h"
#include "supervisor/core/pure/ledger.h"
#include "supervisor/core/pure/roster.h"
#include "supervisor/core/pure/settings.h"
#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/plan_messages.h"

namespace elastictrain::core {

// How a run starts: its hosts, its first workers, and whether its program uses the library.
struct Startup {
  bool hosts_known = false;
  bool expired = false;    // no more hosts are waited for
  bool last_call = false;  // there are enough, and more are waited for: settings' last_call
  bool spawned = false;
  Instant spawned_at;
  int program_status = 0;            // 126 or 127: the program could not be run on a host
  bool elastic = false;              // a worker sent hello: the program uses the library
  Millis newest_start{0};            // of the newest worker, until it was ready
  std::uint32_t first_size = 0;      // workers started at first
  std::uint32_t plain_finished = 0;  // processes of a program that does not use it
  std::uint32_t plain_restarts = 0;
  bool clearing = false;        // the processes of before such a restart are still ending
  bool fixed = false;           // its program has not used the library for so long that it never will
  std::uint64_t timer = 0;      // kStart
  std::uint64_t min_timer = 0;  // kWaitForMin: while too few workers are left

  // As far as is known: a program that does not use the library, of fixed size.
  bool is_plain() const { return spawned && !elastic; }
};

// New workers that could not join.
struct StartFailures {
  std::string reported;  // why the last one was dropped, and its host
  std::string newest;    // which one failed last, where and why; empty: none has
  std::string no_first;  // why no worker is started as rank 0 any more; empty: one is when none is left
};

// A run that is taken over.
struct Takeover {
  bool waiting = false;    // not all agents are back
  bool unsettled = false;  // the supervisor before was lost in the middle of a change
};

// The generation that trains, and what a run remembers of those before it.
struct Training {
  Generation generation = 0;      // 0: none yet, or none again
  Generation issued = 0;          // the highest number in use, by plans and fences
  Generation fence = 0;           // the newest one
  std::vector<WorkerId> members;  // by rank; set_members() changes them
  std::set<WorkerId> member_set;
  double learning_rate_factor = 1.0;
  protocol::Topology topology = protocol::Topology::kAuto;
  std::vector<std::uint32_t> parents;  // the explicit tree that replaces it; empty: none
  protocol::Synchronization synchronization = protocol::Synchronization::kGradients;
  std::string size_reason;
  std::string last_change;
  std::vector<protocol::Fence> lineage;  // generations that began, oldest first
  std::size_t size_before_loss = 0;      // until the next planned change
  bool restarting = false;               // all state was lost; `generation` is 0 again
  Millis build_time{0};                  // from the last Prepare that was followed by a Commit to that; 0: unknown

  bool is_member(WorkerId id) const { return member_set.contains(id); }
  void set_members(std::vector<WorkerId> next);
  // False: it is known, or no worker began it. Known from the first member that takes its assignment: the others may
  // never report it, nor may a supervisor that fails now.
  bool remember(Generation number, Step first_step);
};

// kHalting: Abort was sent. kGathering: joiners are starting. kPreparing: Prepare was sent. kCommitted: the swap is in
// progress.
enum class Stage : std::uint8_t { kIdle, kHalting, kGathering, kPreparing, kCommitted };

// The change in flight, from one generation to the next.
struct Change {
  Stage stage = Stage::kIdle;
  Generation generation = 0;
  protocol::ChangeKind kind = protocol::ChangeKind::kStart;
  std::string reason;
  std::vector<WorkerId> members;
  std::vector<WorkerId> leavers;
  std::unordered_set<WorkerId> waiting;  // workers whose answer (kPreparing) or swap (kCommitted) is outstanding
  std::size_t not_ready = 0;
  bool any_active = false;  // a worker passed the boundary
  Step first_step = 0;      // of the new generation, once a worker reported it
  std::uint64_t timer = 0;  // kPrepare or kRetry
  Instant prepared_at{};    // when Prepare was sent
  bool retrying = false;    // waits for kRetry
  bool saves = false;       // made for a checkpoint
  std::uint32_t attempts = 0;
  // What handlers have found while workers prepare; advance() acts on it.
  bool late = false;              // kPrepare has expired
  std::string failure;            // why the attempt has failed; empty: it has not
  std::string unwanted;           // why it must be cancelled, without a failure; empty: it must not
  std::set<WorkerId> failed;      // in the last attempt
  protocol::GenerationPlan plan;  // as sent

  bool plans(WorkerId id) const { return std::find(members.begin(), members.end(), id) != members.end(); }
  // After the commit.
  bool in_flight(WorkerId id) const { return stage == Stage::kCommitted && plans(id); }
};

// The way from a loss to the generation that follows it; the change in flight is that generation's. Meanwhile the
// members of Training are the remaining workers: by old ranks first; once they have answered, holders of the state come
// before the others.
struct Recovery {
  // What handlers have found, and advance() begins: a member is gone or cannot continue. The reason to show, or an
  // empty text.
  std::optional<std::string> wanted;

  Generation fence = 0;              // 0: none
  std::vector<std::string> reasons;  // what was lost
  std::string suspicion;             // the reason given by a member whose collective failed
  std::vector<WorkerId> order;       // all workers concerned, by old ranks
  std::map<WorkerId, std::uint32_t> ranks;
  std::unordered_set<WorkerId> waiting;  // workers whose answer to the Abort is outstanding
  std::uint64_t halt_timer = 0;
  std::optional<Instant> state_until;  // nobody who holds it has answered in time: who is late is not ended before
  Step resume_step = 0;                // the step that counts, once all have answered
  bool gradients_are_left = false;     // a worker still holds those of the step after it
  bool progress = false;               // a step was committed since the previous recovery
  bool of_newcomers = false;           // new workers could not join: that is no failure
  // A change that was committed and that some workers may have adopted.
  Generation taken = 0;
  Step taken_first_step = 0;

  bool active() const { return fence != 0; }
  bool active_or_wanted() const { return active() || wanted; }
  std::string cause() const;
  // Those concerned that still train.
  std::vector<WorkerId> living(const Roster& roster) const;
  // ... that of the step that counts.
  bool holds_state(const Worker* worker) const;
};

// What the run has lost, and whether it may go on.
struct Losses {
  // Workers that were killed for want of memory, one after the other, at one size.
  struct OomRow {
    std::size_t size = 0;
    std::uint32_t count = 0;
    Instant last;
  };

  FailureBudget budget;
  std::vector<Loss> recent;  // since the last committed step
  OomRow oom_row;
  Generation oom_generation = 0;       // that lost the last of them
  bool progressed = true;              // a step was committed since the last recovery
  Generation progress_generation = 0;  // ... which is known from heartbeats of this generation
  Step progress_step = 0;              // ... of this step or a later one
};

// The state that users, policies and the program have requested. The planner compares it with the actual state. A newer
// request supersedes an older one, so there is no queue.
struct DesiredState {
  std::uint32_t target = 1;
  std::string target_reason = "the size to start with";
  std::optional<SizeHold> held;  // `target` is a user's, and policies do not change it
  std::uint64_t hold_timer = 0;
  Instant hold_until;                 // while the timer is armed
  std::map<WorkerId, double> speeds;  // shares follow in proportion; empty: equal ones
  UpdatePlan update;                  // requested since the start; without speeds
  std::string update_reason;          // why plans change although no worker comes or goes; empty: they do not change
  std::map<WorkerId, protocol::ChangeKind> replacements;  // kReplace, or kMigrate: away from its host
  bool hold = false;                   // the last change was given up: nothing moves until the desired state changes
  std::uint32_t failed_joins = 0;      // tries in a row in which new workers could not join
  std::optional<GrowRefusal> refused;  // until a user asks for a size
  std::string unmet;                   // as last reported
  bool no_first_told = false;          // that no worker with rank 0 in its environment is left
  bool saved = false;                  // a checkpoint was ordered because the hosts of all workers go away
  LeaseState lease;                    // of a run of a cluster: it trains with at most that many workers
  std::uint64_t applied_lease = 0;     // the newest version that this supervisor has acted on

  // At least 1; nothing without a hold that ends by itself.
  std::optional<std::uint64_t> hold_left_ms(Instant now) const;
};

// kFinishing: the program reached its end. kDraining: at the next step boundary. kNow: at once.
enum class EndMode : std::uint8_t { kNone, kFinishing, kDraining, kNow };

// Whether and how the run ends.
struct RunEnd {
  EndMode mode = EndMode::kNone;
  int status = 0;
  std::string reason;
  bool wanted = false;               // a handler has set these; advance() does what follows from them
  bool kills = false;                // ... and leaves the workers no grace
  bool expired = false;              // kEnd: what is still awaited does not count any more
  std::vector<WorkerId> cut_off;     // members when the run was to end at once
  bool suspended = false;            // the run is to go on when the cluster has slots for it
  bool left_in_order = false;        // while the run drains: a worker reached its boundary
  bool is_limited = false;           // the processes of a program that has finished must end within the grace
  bool over = false;                 // EndRun was requested
  std::set<WorkerId> finished;       // members whose program reached its end, even if the process has exited
  std::uint64_t accounts_timer = 0;  // kEnd, while the sample accounts of the silent agents are awaited

  bool begun() const { return mode != EndMode::kNone; }
};

struct Run {
  Run(RunSettings of_run, std::function<Token()> token_source);
  // The mechanisms keep no reference to it, but handlers hold one while a step lasts.
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  RunSettings settings;               // with what requests have changed (DesiredState::update)
  std::function<Token()> make_token;  // a fresh unpredictable one at each call
  Outbox out;                         // the actions of this step, timers, the time

  Roster roster;  // agents and workers, and where they are
  Startup startup;
  StartFailures start_failures;
  std::optional<protocol::WorkerReady> reference;  // the state layout that every worker must have
  Takeover takeover;
  Training training;
  Change change;
  Recovery recovery;
  DesiredState desired;
  RunEnd end;

  FailureDetector agent_detector;
  std::set<AgentId> silent_agents;  // given up although their connections are open
  HangDetector hangs;
  std::optional<Instant> collectives_asked;  // when NCCL was last asked what each rank has started
  HostHealth health;
  Losses losses;
  Probation probation;              // members that are newer than the last agreement
  std::uint64_t notices_timer = 0;  // kNotices
  Ledger ledger;                    // in audit mode: which samples counted in which step
  Invariants invariants;
  bool broken = false;  // one of them; the state is wrong, and no step follows
};

// The next generation trains, or there is none.
void end_recovery(Run& run);

// In effect from the next plan on, and kept across supervisors. Speeds are not: their workers may be gone by then.
void apply_update(Run& run, const UpdatePlan& request);
// The desired state has changed: what failed before is tried again.
void renew_desired(Run& run);
void hold_size(Run& run, SizeHold size_hold);
void release_size(Run& run, const std::string& reason);
// New workers are not started beyond this size, until a user asks for it.
void refuse_growth(Run& run, std::uint32_t size, const std::string& why);

// The same fields of two records.
template <class R>
void write_update(const UpdatePlan& update, R& about) {
  about.per_worker = update.per_worker;
  about.program_batch = update.program_batch;
  about.program_max_global = update.program_max_global;
  about.target_factor = update.learning_rate_factor;
  about.target_noise_scale = update.noise_scale;
  about.target_parents = update.parents;
  about.target_topology = update.topology;
  about.target_synchronization = update.synchronization;
}

}  // namespace elastictrain::core
