// Purpose: the control socket of a run: one JSON object per line in, one per line out, for the owner of the run only.
// Ownership: clients keep themselves alive while they are served; closing the server lets answers in progress finish
// and drops the rest. Thread: the io_context's.
// Errors: a client that stalls, sends too much or belongs to another user is dropped; the run never waits for one.
// Where all places are taken, whoever has been waited for longest goes.
#pragma once

#include <asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>

#include "supervisor/protocol/result.h"

namespace elastictrain::control {

class ControlServer {
 public:
  using Answer = std::function<void(std::string json)>;  // called once, immediately or later
  using Handler = std::function<void(std::string line, Answer answer)>;

  virtual ~ControlServer() = default;
  // Removes the socket; no new request is accepted.
  virtual void close() = 0;
  // Answers that are still being written.
  virtual std::size_t unsent() const = 0;
};

Result<std::unique_ptr<ControlServer>> serve(asio::io_context& io, const std::string& run_directory,
                                             ControlServer::Handler handler);

}  // namespace elastictrain::control
