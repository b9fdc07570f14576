// Purpose: checkpoint directory of a run: tries to write it, requires the checkpoints that the run continues from,
// and claims it for one run at a time.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/result.h"

// Tries on this machine, before a run needs it, to write checkpoints and logs where the configuration says.
// Thread: any. Errors: kIo, with the directory, the system's reason and what to do.

namespace elastictrain::cli {

// log.directory, which need not exist yet. Empty: there is none.
Status try_log_directory(const std::string& directory);

// Writes a file there and removes it. Makes no directory: of one that does not exist yet, the nearest existing
// directory above it must be writable.
Status try_checkpoint_directory(const std::string& directory);

// For a run that is started again: `saved` is the step of its newest checkpoint as its journal says. kNoInput: there is
// no checkpoint at all.
Status require_checkpoints(const std::string& directory, std::optional<Step> saved, const std::string& run);

// The journal's newest checkpoint that was written or read.
std::optional<Step> saved_step(const std::string& journal_path);

// A checkpoint directory belongs to one run at a time. A file in it names its run; it stays when the run ends
// without having finished, so that no other run continues from its state, or removes it, by mistake.
//
// The file works on shared file systems: it is created by link(), its age is that of what it says, and its owner looks
// at it with every beat. Who gives a run's name and state directory is that run, on whatever machine.
//
// Thread: one. Errors: kRefused, with the owner and the ways out; a directory that cannot be written is the
// checkpoints' own problem, and no claim.

struct ClaimRequest {
  std::string directory;      // of checkpoints
  std::string run;            // its name
  std::string run_directory;  // where its journal is
  bool adopts = false;        // takes what a run left that does not train any more
  bool continues = false;     // needs its own checkpoints there: another run may not have had it meanwhile
};

// Whether this run may have the directory; changes nothing.
Status may_claim(const ClaimRequest& request);

class CheckpointClaim {
 public:
  // `lost`: another run has taken the directory.
  CheckpointClaim(asio::io_context& io, ClaimRequest request, std::function<void(const std::string&)> lost);
  Status take();
  // Beats until end().
  void keep();
  // `finished`: nothing of this run's state is needed any more, and any other run may have the directory.
  void end(bool finished);

 private:
  enum class Stage : std::uint8_t { kRuns, kEnded, kFinished };
  void beat();
  void write(Stage stage) const;

  asio::steady_timer timer_;
  const ClaimRequest request_;
  std::function<void(const std::string&)> lost_;
  bool held_ = false;
};

}  // namespace elastictrain::cli
