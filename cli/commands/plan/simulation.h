// Purpose: the work of `elastictrain simulate`: traces under policies, side by side on all cores, and the past of a
// cluster beside its prediction.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/output/simulation_report.h"
#include "supervisor/protocol/result.h"

// The runs of `elastictrain simulate`: every trace under every policy on every cluster size, side by side on
// all cores. The result does not depend on the number of cores.

namespace elastictrain::cli {

// Fills in outcome, figures and wall_s of each, and the changes of the first one if asked to. `done` is called from any
// thread after each run, one call at a time.
void simulate_all(std::vector<SimulatedRun>& runs, bool keep_first_changes,
                  const std::function<void(std::size_t)>& done);

// `elastictrain simulate --journal`: what happened on a cluster, from its journal, beside what the simulator
// predicts for the same jobs under that policy or other ones.

struct ReplayFlags {
  std::string journal;                // of a cluster: its directory, or the file
  std::vector<std::string> policies;  // known ones; empty: that of the journal
  bool csv = false;
  bool json = false;
};

struct Replayed {
  ReplayReport report;
  std::vector<std::string> notes;  // for the user
};

// Errors: kNoInput if there is no such journal, kInvalid if it is not enough for a replay.
Result<Replayed> replay_journal(const ReplayFlags& flags);

}  // namespace elastictrain::cli
