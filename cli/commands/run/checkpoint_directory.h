// Purpose: checkpoint directory of a run: tries to write it, requires the checkpoints that the run continues from,
// and claims it for one run at a time.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "cli/config/run_config.h"
#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/remote_place.h"
#include "supervisor/protocol/result.h"
#include "train/checkpoint/target.h"

// Tries on this machine, before a run needs it, to write checkpoints and logs where the configuration says.
// Thread: any. Errors: kIo, with the directory, the system's reason and what to do.

namespace elastictrain::cli {

// log.directory, which need not exist yet. Empty: there is none.
Status try_log_directory(const std::string& directory);

// checkpoint.directory, which may be a place in an object store, and how that is reached.
struct CheckpointPlace {
  std::string directory;
  checkpoint::Client client;
  bool is_remote() const { return protocol::is_remote_place(directory); }
};
CheckpointPlace checkpoint_place_of(const CheckpointConfig& config);

// Writes a file there and removes it. Makes no directory: of one that does not exist yet, the nearest existing
// directory above it must be writable.
Status try_checkpoint_directory(const CheckpointPlace& place);

// For a run that is started again: `saved` is the step of its newest checkpoint as its journal says. kNoInput: there is
// no checkpoint at all.
Status require_checkpoints(const CheckpointPlace& place, std::optional<Step> saved, const std::string& run);

// The journal's newest checkpoint that was written or read.
std::optional<Step> saved_step(const std::string& journal_path);

// A checkpoint directory belongs to one run at a time. A file in it names its run; it stays when the run ends
// without having finished, so that no other run continues from its state, or removes it, by mistake.
//
// The file works on shared file systems: it is created by link(), its age is that of what it says, and its owner looks
// at it with every beat. Who gives a run's name and state directory is that run, on whatever machine. In an object
// store nothing can be created only if it is not there: of two runs that begin at once the first one is told at its
// next beat.
//
// Thread: one; an object store is looked at in a thread of its own. Errors: kRefused, with the owner and the ways out;
// a directory that cannot be written is the checkpoints' own problem, and no claim; kIo, kTimeout: the client of an
// object store failed.

struct ClaimRequest {
  CheckpointPlace place;
  std::string run;            // its name
  std::string run_directory;  // where its journal is
  bool adopts = false;        // takes what a run left that does not train any more
  bool continues = false;     // needs its own checkpoints there: another run may not have had it meanwhile
};

// Whether this run may have the directory; changes nothing.
Status may_claim(const ClaimRequest& request);

class ClaimFile;

class CheckpointClaim {
 public:
  // `lost`: another run has taken the place.
  CheckpointClaim(asio::io_context& io, ClaimRequest request, std::function<void(const std::string&)> lost);
  ~CheckpointClaim();
  Status take();
  // Beats until end().
  void keep();
  // `finished`: nothing of this run's state is needed any more, and any other run may have the place.
  void end(bool finished);

 private:
  enum class Stage : std::uint8_t { kRuns, kEnded, kFinished };
  void beat();
  // Why the claim is lost; empty: it is not.
  std::string beat_once();
  void beat_in_thread(const std::stop_token& stops);
  void write(Stage stage);

  asio::io_context& io_;
  asio::steady_timer timer_;
  const ClaimRequest request_;
  std::unique_ptr<ClaimFile> file_;
  std::function<void(const std::string&)> lost_;
  bool held_ = false;
  std::jthread thread_;
};

}  // namespace elastictrain::cli
