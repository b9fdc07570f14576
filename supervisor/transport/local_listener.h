// Purpose: a Unix socket on which a run or a cluster accepts connections; whom it serves, and how, is its caller's.
//
// Ownership: owns the socket and its file, which goes with it. `accepted` is not called after the listener is gone.
// Thread: the io_context's. Errors: kIo where it cannot listen. One that occurs later (no descriptor is left) makes it
// wait a moment.
#pragma once

#include <sys/types.h>

#include <asio/io_context.hpp>
#include <asio/local/stream_protocol.hpp>
#include <functional>
#include <memory>
#include <string>

#include "supervisor/protocol/result.h"

namespace elastictrain::transport {

class LocalListener {
 public:
  using Accepted = std::function<void(asio::local::stream_protocol::socket)>;

  // In a directory that only its owner can write. `mode`: of the socket's file.
  static Result<LocalListener> listen(asio::io_context& io, const std::string& path, mode_t mode, Accepted accepted);
  ~LocalListener() { close(); }
  LocalListener(LocalListener&& other) noexcept = default;
  LocalListener& operator=(LocalListener&& other) = delete;

  void close();

 private:
  struct State;
  LocalListener(std::string path, std::shared_ptr<State> state) : path_(std::move(path)), state_(std::move(state)) {}
  static void accept(const std::shared_ptr<State>& state);

  std::string path_;
  std::shared_ptr<State> state_;  // none: it is closed
};

}  // namespace elastictrain::transport
