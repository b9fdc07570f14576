// Purpose: the figures of a live run that status and the terminal show, and the answer to a status request as JSON.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "supervisor/core/pure/run_view.h"
#include "supervisor/protocol/ids.h"

// The figures of a live run that `status` and the terminal show. Plain data; times are in seconds.

namespace elastictrain {

// The newest good checkpoint and what went wrong since.
struct CheckpointFigures {
  std::optional<Step> step;     // nothing: there is none
  std::optional<double> age_s;  // nothing: written under an earlier supervisor, or by an earlier run
  std::uint64_t failures = 0;
  std::string reason;  // of the last failure; empty: none
};

struct RunFigures {
  core::RunView view;
  double uptime_s = 0;
  std::uint64_t epoch = 0;
  double epoch_fraction = 0;
  Step step = 0;
  double loss = 0;
  double samples_per_s = 0;
  std::optional<double> time_left_s;  // at the present speed; not known without the program's length
  // Of a program that does not say its length, by its loss: samples of the whole job, and how far that may be off.
  std::optional<double> expected_samples, expected_error_samples;
  std::optional<double> expected_left_s;    // at the present speed
  std::string no_expected_length;           // why there is no such figure; empty: there is, or none is looked for
  std::optional<double> last_change_age_s;  // since the change of `view.last_change` was complete
  double idle_s = 0;  // total time in which no worker made progress because of a change, of all measured changes
  std::optional<double> last_idle_s;  // of the last change; not known before some steps at the new size
  std::uint64_t recoveries = 0;
  std::string last_recovery;  // what was lost, as text; empty: nothing yet
  std::optional<double> last_recovery_idle_s;
  std::string waits;          // for slots of its cluster, and why; empty: it does not
  std::string policy;         // its name; empty: the size is fixed
  std::string policy_reason;  // of its last decision
  double worker_seconds = 0;  // paid for
  double cost = 0;            // of these, in the unit of the prices
  // Samples a second of a worker, relative to those at the smallest size of the run; nothing at that size.
  std::optional<double> scaling_efficiency;
  std::uint32_t smallest_size = 0;
  CheckpointFigures checkpoint;
};

}  // namespace elastictrain

// The answer to a status request (schema: control_protocol.h) from a snapshot of the run. Pure.

namespace elastictrain::control {

struct StatusFacts {
  std::string journal;            // path
  std::string protection;         // of the traffic between hosts, for users
  std::uint64_t per_replica = 1;  // processes of each worker
  std::unordered_map<WorkerId, std::int64_t> pids;
  Instant now;
};

std::string status_answer(const RunFigures& figures, const StatusFacts& facts);

const char* name_of(core::WorkerPhase phase);

}  // namespace elastictrain::control
