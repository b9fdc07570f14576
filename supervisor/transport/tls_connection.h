// Purpose: FrameConnection over an established TlsStream.
// Ownership: shared; the waits in progress keep it alive. Thread: the socket's executor.
// Errors: the close handler is called later, never from within send(); frames that arrived before are delivered first.
#pragma once

#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <deque>
#include <memory>
#include <string>

#include "supervisor/protocol/codec.h"
#include "supervisor/transport/frame_connection.h"
#include "supervisor/transport/tls_stream.h"

namespace elastictrain::transport {

class TlsConnection final : public FrameConnection, public std::enable_shared_from_this<TlsConnection> {
 public:
  TlsConnection(std::unique_ptr<TlsStream> stream, ConnectionLimits limits);

  void start(FrameHandler on_frame, CloseHandler on_close) override;
  void send(std::string frame) override;
  void pause_reading() override { paused_ = true; }
  void resume_reading() override;
  std::size_t queued_bytes() const override { return queued_bytes_; }
  void close_after_flush() override;
  void close() override;
  std::string local_address() const override { return local_address_; }
  std::string remote_address() const override { return remote_address_; }

 private:
  // kFlushing: only sends what is queued. kDraining: has sent all, discards input until the peer closes too, because
  // closing with unread bytes would make the kernel reset the connection and discard what was just sent.
  enum class State { kIdle, kOpen, kFlushing, kDraining, kClosed };

  void wait_readable();
  void read_available();
  bool holds_frames() const { return paused_ && state_ == State::kOpen; }
  void deliver(const char* data, std::size_t length);
  void schedule_flush();
  void flush();
  bool gather();
  void wait_writable();
  void all_sent();
  void fail(ErrorCode code, const std::string& why);
  void stream_ended(const IoOutcome& outcome);
  void drop_handlers();

  std::unique_ptr<TlsStream> stream_;
  ConnectionLimits limits_;
  std::string local_address_;
  std::string remote_address_;
  State state_ = State::kIdle;
  FrameHandler on_frame_;
  CloseHandler on_close_;
  bool delivering_ = false;
  bool paused_ = false;
  bool stalled_ = false;  // nothing reads, because reading is paused
  protocol::FrameReader reader_;
  std::deque<std::string> queue_;
  std::string sending_;
  std::size_t sent_ = 0;  // of sending_
  std::size_t queued_bytes_ = 0;
  bool flush_scheduled_ = false;
  bool waiting_writable_ = false;
  bool write_waits_for_read_ = false;  // the session wants to read before it can write (a key update, for example)
  std::unique_ptr<asio::steady_timer> close_deadline_;
};

// Numeric, IPv6 in brackets.
std::string format_endpoint(const asio::ip::tcp::endpoint& endpoint);

// Small messages leave at once; a peer whose machine is gone is detected while data is queued for it.
void tune_socket(asio::ip::tcp::socket& socket);

}  // namespace elastictrain::transport
