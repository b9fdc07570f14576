// Purpose: `elastictrain simulate --journal`: what happened on a cluster, from its journal, beside what the simulator
// predicts for the same jobs under that policy or other ones.
#pragma once

#include <string>
#include <vector>

#include "cli/output/replay_report.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::cli {

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
