// Purpose: one TLS session over a non-blocking TCP socket, driven by the owner, which waits for the socket. Never
// blocks.
// Ownership: owns the socket and the session. Thread: the socket's executor.
// Errors: every call returns text that says why the stream cannot be used any more.
#pragma once

#include <openssl/ssl.h>

#include <asio/ip/tcp.hpp>
#include <memory>
#include <string>

#include "supervisor/transport/socket_bio.h"
#include "supervisor/transport/tls_context.h"

namespace elastictrain::transport {

enum class IoState { kDone, kWantRead, kWantWrite, kClosed, kFailed };

struct IoOutcome {
  IoState state = IoState::kDone;
  std::size_t bytes = 0;
  std::string message;  // kFailed only
};

class TlsStream {
 public:
  TlsStream(asio::ip::tcp::socket socket, SSL_CTX* context, TlsRole role);
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  IoOutcome handshake();
  IoOutcome read(char* data, std::size_t capacity);
  IoOutcome write(const char* data, std::size_t length);
  // Received bytes are buffered inside the session: waiting for the socket could block forever.
  bool holds_unread() const;

  asio::ip::tcp::socket& socket() { return socket_; }

 private:
  struct FreeSession {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };
  IoOutcome outcome_of(int result);

  asio::ip::tcp::socket socket_;
  SocketState state_;
  std::unique_ptr<SSL, FreeSession> ssl_;
};

}  // namespace elastictrain::transport
