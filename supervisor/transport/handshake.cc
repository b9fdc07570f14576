#include "supervisor/transport/handshake.h"

#include <openssl/ssl.h>

#include <asio/error_code.hpp>
#include <utility>

namespace elastictrain::transport {

using tcp = asio::ip::tcp;

Handshake::Handshake(tcp::socket socket, SSL_CTX* context, TlsRole role, Done done)
    : context_(context),
      role_(role),
      silent_socket_(std::move(socket)),
      deadline_(silent_socket_->get_executor()),
      done_(std::move(done)) {
  SSL_CTX_up_ref(context);
}

void Handshake::start(std::chrono::milliseconds timeout) {
  deadline_.expires_after(timeout);
  deadline_.async_wait([self = shared_from_this()](asio::error_code error) {
    if (!error) self->fail(ErrorCode::kTimeout, "it did not finish the TLS handshake in time");
  });
  if (role_ == TlsRole::kClient) {
    advance();
  } else {
    wait(tcp::socket::wait_read);
  }
}

void Handshake::fail(ErrorCode code, const std::string& why) {
  finish(Error{code, why});
}

void Handshake::advance() {
  if (silent_socket_) {
    stream_ = std::make_unique<TlsStream>(std::move(*silent_socket_), context_.get(), role_);
    silent_socket_.reset();
  }
  const IoOutcome outcome = stream_->handshake();
  switch (outcome.state) {
    case IoState::kDone:
      return finish(std::move(stream_));
    case IoState::kWantRead:
      return wait(tcp::socket::wait_read);
    case IoState::kWantWrite:
      return wait(tcp::socket::wait_write);
    case IoState::kClosed:
      return fail(ErrorCode::kPeerLost, "it closed the connection during the TLS handshake");
    case IoState::kFailed:
      return fail(ErrorCode::kRefused, outcome.message);
  }
}

void Handshake::wait(tcp::socket::wait_type what) {
  tcp::socket& socket = silent_socket_ ? *silent_socket_ : stream_->socket();
  socket.async_wait(what, [self = shared_from_this()](asio::error_code error) {
    if (!self->done_) return;
    if (error) return self->fail(ErrorCode::kIo, error.message());
    self->advance();
  });
}

void Handshake::finish(Result<std::unique_ptr<TlsStream>> result) {
  if (!done_) return;
  Done done = std::exchange(done_, nullptr);
  deadline_.cancel();
  if (!result.ok()) {
    silent_socket_.reset();
    stream_.reset();
  }
  done(std::move(result));
}

}  // namespace elastictrain::transport
