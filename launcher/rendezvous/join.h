// Purpose: a host's side of a rendezvous: the command that somebody started there connects to the run, offers the host,
// and starts and ends agents as the run asks.
//
// Thread: the caller's, until the run has ended. Errors: a line on standard error and the exit status.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "supervisor/transport/frame_connection.h"

namespace elastictrain::launcher {

struct JoinOptions {
  std::string endpoint_host;
  std::uint16_t port = 0;
  transport::Key key{};
  std::string host;  // the name that is offered
  std::uint32_t slots = 1;
  std::chrono::milliseconds patience{600'000};  // until the run is there; and after it was lost, until agents give up
  std::chrono::milliseconds grace{30'000};      // for the workers, when this command is asked to end
  std::function<void(const std::string&)> say;
};

// Returns the run's exit status; 69 if the run cannot be reached, 78 if it refuses this host, 128 + the signal that
// ended this command.
int join_run(const JoinOptions& options);

}  // namespace elastictrain::launcher
