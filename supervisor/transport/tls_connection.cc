#include "supervisor/transport/tls_connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <asio/error_code.hpp>
#include <asio/post.hpp>
#include <chrono>
#include <string_view>
#include <utility>

namespace elastictrain::transport {
namespace {

using tcp = asio::ip::tcp;

constexpr std::size_t kReadChunkBytes = 16 * 1024;       // one TLS record
constexpr int kChunksPerTurn = 16;                       // then other connections get their turn
constexpr std::size_t kGatherBytes = 64 * 1024;          // small frames are sent together up to this
constexpr std::size_t kWriteBytesPerTurn = 1024 * 1024;  // as kChunksPerTurn
constexpr unsigned int kUserTimeoutMs = 20'000;  // for data that the peer does not acknowledge (TCP_USER_TIMEOUT)
constexpr std::chrono::seconds kCloseDeadline{5};

std::string numeric_address(const tcp::endpoint& endpoint) {
  return endpoint.address().to_string();
}

}  // namespace

std::string format_endpoint(const tcp::endpoint& endpoint) {
  const std::string address = numeric_address(endpoint);
  const std::string port = std::to_string(endpoint.port());
  return endpoint.address().is_v6() ? "[" + address + "]:" + port : address + ":" + port;
}

void tune_socket(tcp::socket& socket) {
  asio::error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  (void)::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs, sizeof kUserTimeoutMs);
  socket.non_blocking(true, ignored);
}

TlsConnection::TlsConnection(std::unique_ptr<TlsStream> stream, ConnectionLimits limits)
    : stream_(std::move(stream)), limits_(limits), reader_(limits.max_frame_bytes) {
  asio::error_code error;
  const tcp::endpoint local = stream_->socket().local_endpoint(error);
  if (!error) local_address_ = numeric_address(local);
  const tcp::endpoint remote = stream_->socket().remote_endpoint(error);
  remote_address_ = error ? "unknown address" : format_endpoint(remote);
}

void TlsConnection::start(FrameHandler on_frame, CloseHandler on_close) {
  if (state_ != State::kIdle) return;
  state_ = State::kOpen;
  on_frame_ = std::move(on_frame);
  on_close_ = std::move(on_close);
  // The handshake may have read the first frames along with its last message.
  asio::post(stream_->socket().get_executor(), [self = shared_from_this()] { self->read_available(); });
  schedule_flush();
}

void TlsConnection::wait_readable() {
  stream_->socket().async_wait(tcp::socket::wait_read,
                               [self = shared_from_this()](asio::error_code) { self->read_available(); });
}

void TlsConnection::read_available() {
  std::array<char, kReadChunkBytes> chunk;
  if (std::exchange(write_waits_for_read_, false)) schedule_flush();
  for (int turn = 0; turn < kChunksPerTurn; ++turn) {
    if (state_ == State::kClosed) return;
    stalled_ = holds_frames();
    if (stalled_) return;
    const IoOutcome outcome = stream_->read(chunk.data(), chunk.size());
    if (outcome.state == IoState::kWantRead || outcome.state == IoState::kWantWrite) return wait_readable();
    if (outcome.state != IoState::kDone) return stream_ended(outcome);
    if (state_ == State::kOpen) deliver(chunk.data(), outcome.bytes);
    if (state_ != State::kClosed && !holds_frames() && !stream_->holds_unread()) return wait_readable();
  }
  asio::post(stream_->socket().get_executor(), [self = shared_from_this()] { self->read_available(); });
}

void TlsConnection::deliver(const char* data, std::size_t length) {
  const Status fed = reader_.feed(std::string_view(data, length));
  delivering_ = true;
  while (state_ == State::kOpen && !paused_) {
    auto body = reader_.next();
    if (!body) break;
    on_frame_(std::move(*body));
  }
  delivering_ = false;
  if (state_ != State::kOpen) {
    on_frame_ = nullptr;
    return;
  }
  if (!fed.ok()) return fail(ErrorCode::kInvalid, fed.error().message);
  if (reader_.failed()) fail(ErrorCode::kInvalid, "it sent a frame over the limit");
}

void TlsConnection::resume_reading() {
  paused_ = false;
  if (!std::exchange(stalled_, false)) return;
  asio::post(stream_->socket().get_executor(), [self = shared_from_this()] {
    if (self->state_ == State::kOpen) self->deliver(nullptr, 0);
    self->read_available();
  });
}

void TlsConnection::send(std::string frame) {
  if (state_ != State::kOpen && state_ != State::kIdle) return;
  if (frame.size() > limits_.max_frame_bytes + protocol::kFrameHeaderBytes) {
    return fail(ErrorCode::kInternal, "a message of " + std::to_string(frame.size()) + " bytes is over the limit");
  }
  queued_bytes_ += frame.size();
  queue_.push_back(std::move(frame));
  if (queued_bytes_ > limits_.max_queued_bytes) {
    return fail(ErrorCode::kPeerLost, "it does not read: " + std::to_string(queued_bytes_) + " bytes wait for it");
  }
  schedule_flush();
}

// All frames that one handler sends leave in one write.
void TlsConnection::schedule_flush() {
  if (flush_scheduled_ || waiting_writable_ || state_ == State::kIdle) return;
  flush_scheduled_ = true;
  asio::post(stream_->socket().get_executor(), [self = shared_from_this()] {
    self->flush_scheduled_ = false;
    self->flush();
  });
}

void TlsConnection::flush() {
  if (state_ != State::kOpen && state_ != State::kFlushing) return;
  std::size_t written = 0;
  while (written < kWriteBytesPerTurn) {
    if (sent_ == sending_.size() && !gather()) return all_sent();
    const IoOutcome outcome = stream_->write(sending_.data() + sent_, sending_.size() - sent_);
    if (outcome.state == IoState::kWantWrite) return wait_writable();
    if (outcome.state == IoState::kWantRead) {
      write_waits_for_read_ = true;
      return;
    }
    if (outcome.state != IoState::kDone) return stream_ended(outcome);
    sent_ += outcome.bytes;
    written += outcome.bytes;
    queued_bytes_ -= outcome.bytes;
  }
  schedule_flush();
}

bool TlsConnection::gather() {
  sending_.clear();
  sent_ = 0;
  if (queue_.empty()) return false;
  sending_ = std::move(queue_.front());
  queue_.pop_front();
  while (!queue_.empty() && sending_.size() + queue_.front().size() <= kGatherBytes) {
    sending_ += queue_.front();
    queue_.pop_front();
  }
  return true;
}

void TlsConnection::wait_writable() {
  waiting_writable_ = true;
  stream_->socket().async_wait(tcp::socket::wait_write, [self = shared_from_this()](asio::error_code) {
    self->waiting_writable_ = false;
    self->flush();
  });
}

void TlsConnection::all_sent() {
  if (state_ != State::kFlushing) return;
  state_ = State::kDraining;
  asio::error_code ignored;
  stream_->socket().shutdown(tcp::socket::shutdown_send, ignored);
}

void TlsConnection::close_after_flush() {
  if (state_ == State::kIdle) start(nullptr, nullptr);
  if (state_ != State::kOpen) return;
  state_ = State::kFlushing;
  resume_reading();
  drop_handlers();
  close_deadline_ = std::make_unique<asio::steady_timer>(stream_->socket().get_executor(), kCloseDeadline);
  close_deadline_->async_wait([self = shared_from_this()](asio::error_code error) {
    if (!error) self->close();
  });
  schedule_flush();
}

void TlsConnection::close() {
  drop_handlers();
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  asio::error_code ignored;
  stream_->socket().close(ignored);
  if (close_deadline_) close_deadline_->cancel();
  queue_.clear();
}

void TlsConnection::stream_ended(const IoOutcome& outcome) {
  if (outcome.state == IoState::kFailed) return fail(ErrorCode::kPeerLost, outcome.message);
  fail(ErrorCode::kPeerLost, reader_.buffered_bytes() == 0 ? "it closed the connection"
                                                           : "it closed the connection in the middle of a message");
}

void TlsConnection::fail(ErrorCode code, const std::string& why) {
  if (state_ == State::kClosed) return;
  CloseHandler on_close = std::exchange(on_close_, nullptr);
  close();
  if (!on_close) return;
  // Kept in the connection until it runs, so that a close() in between cancels it.
  on_close_ = std::move(on_close);
  asio::post(stream_->socket().get_executor(), [self = shared_from_this(), error = Error{code, why}] {
    if (CloseHandler handler = std::exchange(self->on_close_, nullptr)) handler(error);
  });
}

// The handlers usually hold the owner of this connection. A handler that is running must not be destroyed by itself.
void TlsConnection::drop_handlers() {
  if (!delivering_) on_frame_ = nullptr;
  on_close_ = nullptr;
}

}  // namespace elastictrain::transport
