// An attacker in the network has recorded an agent's connection and replays it to the supervisor.
#include <doctest/doctest.h>

#include <asio/buffer.hpp>
#include <asio/error_code.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/address.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <memory>
#include <string>

#include "tests/unit/transport/loop.h"

namespace elastictrain::transport {
namespace {

using std::chrono::milliseconds;
using tcp = asio::ip::tcp;

// Forwards one connection and records the client's bytes, flight by flight.
class Recorder {
 public:
  Recorder(asio::io_context& io, std::uint16_t server_port)
      : acceptor_(io, {asio::ip::make_address("127.0.0.1"), 0}), client_(io), server_(io) {
    acceptor_.async_accept(client_, [this, server_port](asio::error_code error) {
      if (error) return;
      server_.connect({asio::ip::make_address("127.0.0.1"), server_port});
      pass(client_, server_, &flights);
      pass(server_, client_, nullptr);
    });
  }

  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }

  std::vector<std::string> flights;

 private:
  void pass(tcp::socket& from, tcp::socket& to, std::vector<std::string>* record) {
    auto bytes = std::make_shared<std::string>(64 * 1024, '\0');
    from.async_read_some(asio::buffer(*bytes), [=, this, &from, &to](asio::error_code error, std::size_t count) {
      if (error) return to.close();
      bytes->resize(count);
      if (record != nullptr) record->push_back(*bytes);
      asio::error_code ignored;
      asio::write(to, asio::buffer(*bytes), ignored);
      pass(from, to, record);
    });
  }

  tcp::acceptor acceptor_;
  tcp::socket client_;
  tcp::socket server_;
};

// The client's bytes of a connection over which "hello" was sent and accepted.
std::vector<std::string> record_hello(asio::io_context& io, TestServer& server) {
  Recorder recorder(io, server.listener->port());
  TestClient client(io);
  client.connect_to({"127.0.0.1"}, recorder.port(), server.key);
  REQUIRE(run_until(io, [&] { return client.connection != nullptr; }));
  client.connection->send(frame_of("hello"));
  REQUIRE(run_until(io, [&] { return server.received.size() == 1; }));
  client.connection->close();
  REQUIRE(run_until(io, [&] { return server.closed.size() == 1; }));
  return recorder.flights;
}

TEST_CASE("a recorded hello is taken once, whether it is played again at once or as it was spoken") {
  for (const bool at_once : {true, false}) {
    CAPTURE(at_once);
    asio::io_context io;
    TestServer server(io);
    ListenOptions options;
    options.handshake_timeout = milliseconds(300);
    server.open(options);
    const std::vector<std::string> flights = record_hello(io, server);
    REQUIRE(flights.size() >= 2);

    tcp::socket replay(io);
    replay.connect({asio::ip::make_address("127.0.0.1"), server.listener->port()});
    for (const std::string& flight : flights) {
      asio::error_code ignored;
      asio::write(replay, asio::buffer(flight), ignored);
      if (at_once) continue;
      asio::steady_timer pause(io, milliseconds(20));
      bool over = false;
      pause.async_wait([&](asio::error_code) { over = true; });
      REQUIRE(run_until(io, [&] { return over; }));
    }
    REQUIRE(run_until(io, [&] { return !server.rejected.empty(); }));
    CHECK(server.received.size() == 1);
    CHECK(server.connections.size() == 1);
  }
}

TEST_CASE("a recorded connection is of no use to a server that has another key") {
  asio::io_context io;
  TestServer server(io);
  server.open();
  const std::vector<std::string> flights = record_hello(io, server);
  TestServer other(io);
  other.open();
  tcp::socket replay(io);
  replay.connect({asio::ip::make_address("127.0.0.1"), other.listener->port()});
  for (const std::string& flight : flights) {
    asio::error_code ignored;
    asio::write(replay, asio::buffer(flight), ignored);
  }
  REQUIRE(run_until(io, [&] { return !other.rejected.empty(); }));
  CHECK(other.connections.empty());
  CHECK(other.received.empty());
}

}  // namespace
}  // namespace elastictrain::transport
