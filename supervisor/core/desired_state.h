// Purpose: the state that users, policies and the program have requested. Plain data; the planner compares it with the
// actual state. A newer request supersedes an older one, so there is no queue.
//
// Ownership and thread: those of the state machine.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "supervisor/core/change.h"
#include "supervisor/core/event.h"
#include "supervisor/core/outbox.h"
#include "supervisor/core/roster.h"
#include "supervisor/core/settings.h"

namespace elastictrain::core {

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

  // In effect from the next plan on, and kept across supervisors. Speeds are not: their workers may be gone by then.
  void apply(const UpdatePlan& request, RunSettings& settings);
  void hold_size(SizeHold size_hold, Outbox& out);
  // At least 1; nothing without a hold that ends by itself.
  std::optional<std::uint64_t> hold_left_ms(Instant now) const;
  void release_size(const std::string& reason, Outbox& out);
  // New workers are not started beyond this size, until a user asks for it.
  void refuse_growth(std::uint32_t size, const std::string& why, Outbox& out);
  // It changed: what failed before is tried again.
  void renew(Roster& roster, Change& change, Outbox& out);
};

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
