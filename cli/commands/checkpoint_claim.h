// Purpose: a checkpoint directory belongs to one run at a time. A file in it names its run; it stays when the run ends
// without having finished, so that no other run continues from its state, or removes it, by mistake.
//
// The file works on shared file systems: it is created by link(), its age is that of what it says, and its owner looks
// at it with every beat. Who gives a run's name and state directory is that run, on whatever machine.
//
// Thread: one. Errors: kRefused, with the owner and the ways out; a directory that cannot be written is the
// checkpoints' own problem, and no claim.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <string>

#include "supervisor/protocol/result.h"

namespace elastictrain::cli {

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
