// Purpose: one TLS 1.3 session with the run's pre-shared key over a non-blocking TCP socket, with its OpenSSL
// context and socket BIO.
#pragma once

#include <openssl/bio.h>
#include <openssl/ssl.h>

#include <asio/ip/tcp.hpp>
#include <memory>
#include <string>

#include "supervisor/protocol/result.h"
#include "supervisor/transport/frame_connection.h"

// Lets OpenSSL read and write a non-blocking socket without ever raising SIGPIPE (OpenSSL's own socket BIO
// uses write(2)), and remembers why the socket failed, which OpenSSL's error queue does not. Ownership: the caller
// keeps SocketState alive as long as the BIO; the descriptor stays the caller's.

namespace elastictrain::transport {

struct SocketState {
  int descriptor = -1;
  bool end_of_stream = false;
  int error = 0;  // errno of the last failed call that was not a mere "try again"
};

BIO* make_socket_bio(SocketState* state);

// OpenSSL contexts that accept exactly one thing: TLS 1.3 with the run's pre-shared key and a fresh
// Diffie-Hellman exchange. No certificates, no tickets, no resumption, no early data.
// Ownership: reference-counted by OpenSSL; every TlsStream holds its own reference, the key is wiped with the last one.

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using TlsContext = std::unique_ptr<SSL_CTX, FreeContext>;

enum class TlsRole { kClient, kServer };

Result<TlsContext> make_tls_context(TlsRole role, const Key& key);

// One TLS session over a non-blocking TCP socket, driven by the owner, which waits for the socket. Never
// blocks.
// Ownership: owns the socket and the session. Thread: the socket's executor.
// Errors: every call returns text that says why the stream cannot be used any more.

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
