// Purpose: the data that outlives processes: the run's journal, whose last record may be torn by a kill, and the
// checkpoints with their manifests and fence files on storage that all hosts share.
//
// Ownership: the world. Thread: one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "supervisor/core/pure/action.h"
#include "supervisor/protocol/worker_messages.h"
#include "tests/simulation/oracle.h"
#include "tests/simulation/rng.h"
#include "train/state/progress.h"

namespace elastictrain::simulation {

struct Checkpoint {
  CheckpointFacts facts;
  state::Progress progress;
  std::vector<protocol::Fence> lineage;  // as the writer knew it
};

class Disk {
 public:
  bool full = false;
  std::uint64_t boots = 1;  // of its machine

  // Writes records as supervisor/journal.h does, and returns whether records are missing.
  bool journal(Instant now, const core::Journal& record);
  // The writer was killed in the middle of this record.
  void tear(Instant now, const core::Journal& record, Rng& rng);
  // Its machine has lost its power: some of what no record with `sync` has followed is gone.
  void lose_unsynced(Rng& rng);
  bool misses_records() const { return full || lost_ != 0; }  // and has not reported it yet
  const std::string& journal_text() const { return journal_; }

  // The newest valid one according to the lineages and the fence files.
  std::optional<Checkpoint> choose(const std::string& of_environment,
                                   const std::vector<protocol::Fence>& of_plan) const;

  std::vector<Checkpoint> checkpoints;                             // complete ones
  std::vector<protocol::Fence> fences;                             // one file each
  std::vector<std::pair<WorkerId, protocol::WorkerAudit>> audits;  // stored next to the journal

 private:
  void append(Instant now, const core::Journal& record);

  std::string journal_;
  std::size_t synced_bytes_ = 0;  // of it
  std::uint64_t lost_ = 0;        // records since the disk was full
  std::uint64_t sequence_ = 0;
};

}  // namespace elastictrain::simulation
