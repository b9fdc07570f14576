// Purpose: one authenticated, bounded connection between supervisor and agent: TLS 1.3 with the run's pre-shared key,
// carrying length-prefixed frames (codec.h). Both sides use this class, so launcher/ may include this folder.
//
// Thread: the io_context's thread. Ownership: shared; pending operations keep it alive, close() releases it.
// Errors: any protocol violation, oversized frame, full send queue or lost connection closes it and calls the close
// handler exactly once, with what the peer did.
#pragma once

#include <asio/io_context.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "supervisor/protocol/limits.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::transport {

using Key = std::array<std::uint8_t, 32>;

struct ConnectionLimits {
  std::size_t max_frame_bytes = limits::kMaxFrameBytes;
  std::size_t max_queued_bytes = 64u << 20;  // a peer that does not read is dropped when this much is queued
};

class FrameConnection {
 public:
  using FrameHandler = std::function<void(std::string body)>;
  using CloseHandler = std::function<void(Error)>;

  virtual ~FrameConnection() = default;
  virtual void start(FrameHandler on_frame, CloseHandler on_close) = 0;
  virtual void send(std::string frame) = 0;  // frame as encode_frame() returns it
  // Frames wait in the connection, and soon in the peer, until reading resumes. May be called by the frame handler.
  virtual void pause_reading() = 0;
  virtual void resume_reading() = 0;
  virtual std::size_t queued_bytes() const = 0;    // given to send() and not yet passed to the kernel
  virtual void close_after_flush() = 0;            // what is queued still goes out; no close handler call
  virtual void close() = 0;                        // at once; no close handler call
  virtual std::string local_address() const = 0;   // numeric, without port
  virtual std::string remote_address() const = 0;  // numeric, with port
};

// Tries the addresses in order until one completes the handshake or the time is up.
void connect(asio::io_context& io, std::vector<std::string> addresses, std::uint16_t port, const Key& key,
             std::chrono::milliseconds timeout, ConnectionLimits connection_limits,
             std::function<void(Result<std::shared_ptr<FrameConnection>>)> done);

struct ListenOptions {
  std::vector<std::string> addresses;  // numeric addresses to bind; empty: loopback only
  std::uint16_t port = 0;              // 0: any free one
  std::chrono::milliseconds handshake_timeout{5'000};
  std::size_t max_pending_handshakes = 1024;  // more are closed at once, oldest pending first
  ConnectionLimits connection_limits;
};

// Accepts connections that prove the key; others are closed and reported through `on_rejected` (address and reason).
class Listener {
 public:
  virtual ~Listener() = default;
  virtual std::uint16_t port() const = 0;
  virtual void stop() = 0;
};

Result<std::unique_ptr<Listener>> listen(asio::io_context& io, const ListenOptions& options, const Key& key,
                                         std::function<void(std::shared_ptr<FrameConnection>)> on_accepted,
                                         std::function<void(std::string address, std::string reason)> on_rejected);

// 32 bytes from the operating system's random source.
Key make_key();

}  // namespace elastictrain::transport
