// Purpose: turns a connected socket into an authenticated TLS session, within one deadline for the whole handshake (a
// peer that sends byte by byte does not extend it). Used by both sides.
// Ownership: keeps itself alive until it has called `done`, exactly once. Thread: the socket's executor.
#pragma once

#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "supervisor/protocol/result.h"
#include "supervisor/transport/tls_stream.h"

namespace elastictrain::transport {

class Handshake : public std::enable_shared_from_this<Handshake> {
 public:
  using Done = std::function<void(Result<std::unique_ptr<TlsStream>>)>;

  Handshake(asio::ip::tcp::socket socket, SSL_CTX* context, TlsRole role, Done done);
  void start(std::chrono::milliseconds timeout);
  void fail(ErrorCode code, const std::string& why);

 private:
  void advance();
  void wait(asio::ip::tcp::socket::wait_type what);
  void finish(Result<std::unique_ptr<TlsStream>> result);

  TlsContext context_;
  TlsRole role_;
  // A server creates the session only when the peer has sent data, so that a silent connection costs only a socket.
  std::optional<asio::ip::tcp::socket> silent_socket_;
  std::unique_ptr<TlsStream> stream_;
  asio::steady_timer deadline_;
  Done done_;
};

}  // namespace elastictrain::transport
