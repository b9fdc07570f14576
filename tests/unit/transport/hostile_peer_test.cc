#include <doctest/doctest.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <poll.h>

#include <asio/buffer.hpp>
#include <asio/error_code.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/address.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <future>
#include <thread>

#include "supervisor/transport/tls_stream.h"
#include "tests/unit/transport/loop.h"

namespace elastictrain::transport {
namespace {

using std::chrono::milliseconds;
using tcp = asio::ip::tcp;

tcp::socket plain_connection(asio::io_context& io, std::uint16_t port) {
  tcp::socket socket(io);
  socket.connect({asio::ip::make_address("127.0.0.1"), port});
  return socket;
}

bool finished(TlsStream& stream, const IoOutcome& outcome) {
  if (outcome.state != IoState::kWantRead && outcome.state != IoState::kWantWrite) return true;
  const short events = outcome.state == IoState::kWantRead ? POLLIN : POLLOUT;
  pollfd waiting{stream.socket().native_handle(), events, 0};
  ::poll(&waiting, 1, 10'000);
  return false;
}

// A peer that holds the key but writes arbitrary data, on its own thread and io_context.
template <class Body>
std::thread rogue_client(std::uint16_t port, const Key& key, Body body) {
  return std::thread([port, key, body] {
    asio::io_context io;
    tcp::socket socket = plain_connection(io, port);
    socket.non_blocking(true);
    auto context = make_tls_context(TlsRole::kClient, key);
    TlsStream stream(std::move(socket), context.value().get(), TlsRole::kClient);
    while (!finished(stream, stream.handshake())) {
    }
    body(stream);
  });
}

bool write_all(TlsStream& stream, const std::string& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const IoOutcome outcome = stream.write(bytes.data() + done, bytes.size() - done);
    if (outcome.state == IoState::kDone) done += outcome.bytes;
    if (outcome.state == IoState::kClosed || outcome.state == IoState::kFailed) return false;
    finished(stream, outcome);
  }
  return true;
}

TEST_CASE("plain text is refused as something that does not speak TLS") {
  asio::io_context io;
  TestServer server(io);
  server.open();
  for (const std::string text : {"GET / HTTP/1.1\r\n\r\n", "complete rubbish that is longer than a header"}) {
    server.rejected.clear();
    tcp::socket socket = plain_connection(io, server.listener->port());
    asio::write(socket, asio::buffer(text));
    REQUIRE(run_until(io, [&] { return !server.rejected.empty(); }));
    CHECK(server.rejected[0].second == "it does not speak TLS 1.3");
  }
  CHECK(server.connections.empty());
}

TEST_CASE("a silent connection is dropped at the handshake deadline") {
  asio::io_context io;
  TestServer server(io);
  ListenOptions options;
  options.handshake_timeout = milliseconds(60);
  server.open(options);
  tcp::socket socket = plain_connection(io, server.listener->port());
  REQUIRE(run_until(io, [&] { return !server.rejected.empty(); }));
  CHECK(server.rejected[0].second == "it did not finish the TLS handshake in time");
}

TEST_CASE("dripping bytes does not extend the handshake deadline") {
  asio::io_context io;
  TestServer server(io);
  ListenOptions options;
  options.handshake_timeout = milliseconds(300);
  server.open(options);
  tcp::socket socket = plain_connection(io, server.listener->port());
  // The start of a TLS record of 512 bytes that never ends.
  const unsigned char header[] = {0x16, 0x03, 0x01, 0x02, 0x00, 0x01};
  asio::write(socket, asio::buffer(header));
  asio::steady_timer drip(io);
  std::function<void()> drip_on = [&] {
    drip.expires_after(milliseconds(20));
    drip.async_wait([&](asio::error_code) {
      asio::error_code ignored;
      asio::write(socket, asio::buffer("\0", 1), ignored);
      drip_on();
    });
  };
  drip_on();
  REQUIRE(run_until(
      io, [&] { return !server.rejected.empty(); }, milliseconds(5'000)));
  CHECK(server.rejected[0].second == "it did not finish the TLS handshake in time");
}

TEST_CASE("hundreds of half-open connections push each other out, not the one with the key") {
  asio::io_context io;
  TestServer server(io);
  ListenOptions options;
  options.max_pending_handshakes = 16;
  server.open(options);
  std::vector<tcp::socket> flood;
  for (int i = 0; i < 400; ++i) flood.push_back(plain_connection(io, server.listener->port()));
  TestClient client(io);
  client.connect_to({"127.0.0.1"}, server.listener->port(), server.key);
  REQUIRE(run_until(io, [&] { return client.answers == 1; }));
  CHECK(client.connection);
  CHECK(server.rejected.size() >= 400 - 16);
}

TEST_CASE("a server with a certificate but without the key is not trusted") {
  asio::io_context io;
  tcp::acceptor acceptor(io, {asio::ip::make_address("127.0.0.1"), 0});
  std::thread impostor([&acceptor] {
    tcp::socket socket = acceptor.accept();
    EVP_PKEY* key = EVP_EC_gen("P-256");
    X509* certificate = X509_new();
    X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_sign(certificate, key, EVP_sha256());
    SSL_CTX* context = SSL_CTX_new(TLS_server_method());
    SSL_CTX_use_certificate(context, certificate);
    SSL_CTX_use_PrivateKey(context, key);
    SSL* ssl = SSL_new(context);
    SSL_set_fd(ssl, socket.native_handle());
    SSL_accept(ssl);
    SSL_free(ssl);
    SSL_CTX_free(context);
    X509_free(certificate);
    EVP_PKEY_free(key);
  });
  TestClient client(io);
  client.connect_to({"127.0.0.1"}, acceptor.local_endpoint().port(), make_key());
  const bool answered = run_until(io, [&] { return client.answers == 1; });
  impostor.join();
  REQUIRE(answered);
  CHECK(!client.connection);
  CHECK(client.error.message.find("did not prove the run's key") != std::string::npos);
}

TEST_CASE("an oversized frame closes the connection before its body is taken") {
  asio::io_context io;
  TestServer server(io);
  server.open();
  std::thread rogue = rogue_client(server.listener->port(), server.key, [](TlsStream& stream) {
    std::string frame(4, '\xff');
    write_all(stream, frame);
    char byte = 0;
    while (!finished(stream, stream.read(&byte, 1))) {
    }
  });
  const bool dropped = run_until(io, [&] { return !server.closed.empty(); });
  server.listener->stop();
  rogue.join();
  REQUIRE(dropped);
  CHECK(server.closed[0].find("larger than") != std::string::npos);
  CHECK(server.received.empty());
}

TEST_CASE("a frame cut off by the end of the connection is reported as such") {
  asio::io_context io;
  TestServer server(io);
  server.open();
  std::thread rogue = rogue_client(server.listener->port(), server.key, [](TlsStream& stream) {
    write_all(stream, frame_of("whole") + frame_of("cut off").substr(0, 8));
  });
  const bool dropped = run_until(io, [&] { return !server.closed.empty(); });
  rogue.join();
  REQUIRE(dropped);
  CHECK(server.closed[0] == "it closed the connection in the middle of a message");
  REQUIRE(server.received.size() == 1);
  CHECK(server.received[0] == "whole");
}

TEST_CASE("malformed data after the handshake closes the connection") {
  asio::io_context io;
  TestServer server(io);
  server.open();
  std::thread rogue = rogue_client(server.listener->port(), server.key, [](TlsStream& stream) {
    asio::write(stream.socket(), asio::buffer(std::string(100, 'r')));
  });
  const bool dropped = run_until(io, [&] { return !server.closed.empty(); });
  rogue.join();
  CHECK(dropped);
  CHECK(server.received.empty());
}

TEST_CASE("a peer that stops reading is dropped when too much waits for it") {
  asio::io_context io;
  TestServer server(io);
  ListenOptions options;
  options.connection_limits.max_queued_bytes = 4u << 20;
  server.open(options);
  std::promise<void> done;
  std::thread rogue = rogue_client(server.listener->port(), server.key,
                                   [seen = done.get_future().share()](TlsStream&) { seen.wait(); });
  const std::string frame = frame_of(std::string(256 * 1024, 'f'));
  const bool dropped = run_until(io, [&] {
    if (!server.connections.empty()) server.connections[0]->send(frame);
    return !server.closed.empty();
  });
  done.set_value();
  rogue.join();
  REQUIRE(dropped);
  CHECK(server.closed.size() == 1);
  CHECK(server.closed[0].find("it does not read") != std::string::npos);
}

TEST_CASE("a frame over the limit is refused by the sender, so that its peer need not") {
  asio::io_context io;
  TestServer server(io);
  server.open();
  TestClient client(io);
  ConnectionLimits limits;
  limits.max_frame_bytes = 1000;
  client.connect_to({"127.0.0.1"}, server.listener->port(), server.key, milliseconds(5'000), limits);
  REQUIRE(run_until(io, [&] { return client.connection != nullptr; }));
  client.connection->send(frame_of(std::string(1001, 'x')));
  REQUIRE(run_until(io, [&] { return !client.closed.empty(); }));
  CHECK(client.closed[0].find("over the limit") != std::string::npos);
}

TEST_CASE("frames that arrived before the peer vanished are delivered") {
  asio::io_context io;
  TestServer server(io);
  server.open();
  std::thread rogue = rogue_client(server.listener->port(), server.key, [](TlsStream& stream) {
    std::string many;
    for (int i = 0; i < 10'000; ++i) many += frame_of("message " + std::to_string(i));
    write_all(stream, many);
  });
  const bool dropped = run_until(io, [&] { return !server.closed.empty(); });
  rogue.join();
  REQUIRE(dropped);
  CHECK(server.received.size() == 10'000);
}

}  // namespace
}  // namespace elastictrain::transport
