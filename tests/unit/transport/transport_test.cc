#include <doctest/doctest.h>

#include <asio/io_context.hpp>
#include <asio/ip/address.hpp>
#include <asio/ip/tcp.hpp>

#include "tests/unit/transport/loop.h"

namespace elastictrain::transport {
namespace {

using std::chrono::milliseconds;

struct Pair {
  explicit Pair(ListenOptions options = {}, ConnectionLimits limits = {}) : server(io), client(io) {
    server.open(options);
    const std::string address = options.addresses.empty() ? "127.0.0.1" : options.addresses.front();
    client.connect_to({address}, server.listener->port(), server.key, milliseconds(10'000), limits);
    REQUIRE(run_until(io, [this] { return client.connection && !server.connections.empty(); }));
  }
  asio::io_context io;
  TestServer server;
  TestClient client;
};

TEST_CASE("frames travel both ways in order between holders of the same key") {
  Pair pair;
  for (int i = 0; i < 500; ++i) {
    pair.client.connection->send(frame_of("up " + std::to_string(i)));
    pair.server.connections[0]->send(frame_of("down " + std::to_string(i)));
  }
  REQUIRE(run_until(pair.io, [&] { return pair.server.received.size() == 500 && pair.client.received.size() == 500; }));
  for (std::size_t i = 0; i < 500; ++i) {
    REQUIRE(pair.server.received[i] == "up " + std::to_string(i));
    REQUIRE(pair.client.received[i] == "down " + std::to_string(i));
  }
}

TEST_CASE("while reading is paused frames wait, and come in order when it resumes") {
  Pair pair;
  auto& frames = pair.server.received;
  auto& reader = *pair.server.connections[0];
  pair.server.on_frame = [&] {
    if (frames.size() % 100 == 0) reader.pause_reading();
  };
  for (int i = 0; i < 300; ++i) pair.client.connection->send(frame_of(std::string(1000, 'x') + std::to_string(i)));
  for (const std::size_t count : {100U, 200U, 300U}) {
    REQUIRE(run_until(pair.io, [&] { return frames.size() == count; }));
    pair.client.connection->send(frame_of("more"));
    pair.io.poll();
    CHECK(frames.size() == count);
    reader.resume_reading();
  }
  REQUIRE(run_until(pair.io, [&] { return frames.size() == 303; }));
  for (std::size_t i = 0; i < 300; ++i) REQUIRE(frames[i] == std::string(1000, 'x') + std::to_string(i));
  CHECK(pair.server.closed.empty());
}

TEST_CASE("a connection whose reading is paused can be closed by either end") {
  Pair pair;
  pair.server.on_frame = [&] { pair.server.connections[0]->pause_reading(); };
  pair.client.connection->send(frame_of("one"));
  pair.client.connection->send(frame_of("two"));
  REQUIRE(run_until(pair.io, [&] { return pair.server.received.size() == 1; }));
  pair.server.connections[0]->send(frame_of("last"));
  pair.server.connections[0]->close_after_flush();
  REQUIRE(run_until(pair.io, [&] { return pair.client.closed.size() == 1; }));
  CHECK(pair.client.received == std::vector<std::string>{"last"});
}

TEST_CASE("an empty frame is a frame") {
  Pair pair;
  pair.client.connection->send(frame_of(""));
  pair.client.connection->send(frame_of("after"));
  REQUIRE(run_until(pair.io, [&] { return pair.server.received.size() == 2; }));
  CHECK(pair.server.received[0].empty());
}

TEST_CASE("large frames pass both ways at once") {
  Pair pair;
  const std::string up(20'000'000, 'u');
  const std::string down(30'000'000, 'd');
  pair.client.connection->send(frame_of(up));
  pair.server.connections[0]->send(frame_of(down));
  REQUIRE(run_until(pair.io, [&] { return !pair.server.received.empty() && !pair.client.received.empty(); }));
  CHECK(pair.server.received[0] == up);
  CHECK(pair.client.received[0] == down);
}

TEST_CASE("addresses are numeric and name the right ends") {
  Pair pair;
  CHECK(pair.client.connection->local_address() == "127.0.0.1");
  CHECK(pair.client.connection->remote_address() == "127.0.0.1:" + std::to_string(pair.server.listener->port()));
}

TEST_CASE("IPv6 works, and one port serves both families") {
  asio::io_context io;
  TestServer server(io);
  ListenOptions options;
  options.addresses = {"127.0.0.1", "::1"};
  server.open(options);
  TestClient four(io), six(io);
  four.connect_to({"127.0.0.1"}, server.listener->port(), server.key);
  six.connect_to({"::1"}, server.listener->port(), server.key);
  REQUIRE(run_until(io, [&] { return four.answers == 1 && six.answers == 1; }));
  REQUIRE(four.connection);
  REQUIRE(six.connection);
  CHECK(six.connection->remote_address() == "[::1]:" + std::to_string(server.listener->port()));
}

TEST_CASE("a client with another key is refused, reported by address, and notified") {
  asio::io_context io;
  TestServer server(io);
  server.open();
  TestClient client(io);
  client.connect_to({"127.0.0.1"}, server.listener->port(), make_key());
  REQUIRE(run_until(io, [&] { return client.answers == 1 && server.rejected.size() == 1; }));
  CHECK(!client.connection);
  CHECK(client.error.code == ErrorCode::kRefused);
  CHECK(client.error.message.find("does not accept the key") != std::string::npos);
  CHECK(server.connections.empty());
  CHECK(server.rejected[0].first.rfind("127.0.0.1:", 0) == 0);
  CHECK(server.rejected[0].second == "it has a different key than this run");
}

TEST_CASE("a dead port is an error that names address and cause") {
  asio::io_context io;
  std::uint16_t port = 0;
  {
    asio::ip::tcp::acceptor taken(io, {asio::ip::make_address("127.0.0.1"), 0});
    port = taken.local_endpoint().port();
  }
  TestClient client(io);
  client.connect_to({"127.0.0.1", "nonsense", "::1"}, port, make_key());
  REQUIRE(run_until(io, [&] { return client.answers == 1; }));
  CHECK(client.error.code == ErrorCode::kUnavailable);
  CHECK(client.error.message.find("127.0.0.1: Connection refused") != std::string::npos);
  CHECK(client.error.message.find("nonsense: not a numeric address") != std::string::npos);
}

TEST_CASE("a later address is tried when an earlier one fails or swallows everything") {
  asio::io_context io;
  TestServer server(io);
  server.open();
  asio::ip::tcp::acceptor silent(io, {asio::ip::make_address("127.0.0.2"), server.listener->port()});
  TestClient client(io);
  client.connect_to({"127.0.0.3", "127.0.0.2", "127.0.0.1"}, server.listener->port(), server.key, milliseconds(900));
  REQUIRE(run_until(io, [&] { return client.answers == 1; }));
  CHECK(client.connection);
}

TEST_CASE("no address at all is an error, not a wait") {
  asio::io_context io;
  TestClient client(io);
  client.connect_to({}, 1, make_key());
  REQUIRE(run_until(io, [&] { return client.answers == 1; }));
  CHECK(client.error.message.find("no address given") != std::string::npos);
}

TEST_CASE("closing one end calls the other end's close handler once and its own never") {
  Pair pair;
  pair.client.connection->close();
  REQUIRE(run_until(pair.io, [&] { return !pair.server.closed.empty(); }));
  CHECK(pair.server.closed.size() == 1);
  CHECK(pair.server.closed[0] == "it closed the connection");
  CHECK(pair.client.closed.empty());
}

TEST_CASE("close after flush delivers everything that was queued, also while the other side talks") {
  Pair pair;
  const std::string large(8'000'000, 'x');
  for (int i = 0; i < 100; ++i) pair.server.connections[0]->send(frame_of("chatter"));
  pair.client.connection->send(frame_of(large));
  pair.client.connection->send(frame_of("last"));
  pair.client.connection->close_after_flush();
  for (int i = 0; i < 100; ++i) pair.server.connections[0]->send(frame_of("chatter"));
  REQUIRE(run_until(pair.io, [&] { return !pair.server.closed.empty(); }));
  REQUIRE(pair.server.received.size() == 2);
  CHECK(pair.server.received[1] == "last");
  CHECK(pair.client.closed.empty());
}

TEST_CASE("a connection may be closed from inside its own frame handler") {
  asio::io_context io;
  TestServer server(io);
  std::shared_ptr<FrameConnection> accepted;
  int frames = 0;
  auto listener = listen(
      io, {}, server.key,
      [&](std::shared_ptr<FrameConnection> c) {
        accepted = c;
        c->start(
            [&frames, c](std::string) {
              ++frames;
              c->close();
            },
            [&](Error) { FAIL("the closer's own handler was called"); });
      },
      [](std::string, std::string) {});
  REQUIRE(listener.ok());
  TestClient client(io);
  client.connect_to({"127.0.0.1"}, (*listener)->port(), server.key);
  REQUIRE(run_until(io, [&] { return client.connection != nullptr; }));
  for (int i = 0; i < 10; ++i) client.connection->send(frame_of("x"));
  REQUIRE(run_until(io, [&] { return !client.closed.empty(); }));
  CHECK(frames == 1);
  CHECK(run_until(io, [&] { return accepted.use_count() == 1; }));
}

TEST_CASE("a listener that cannot bind reports the address and the reason") {
  asio::io_context io;
  TestServer first(io);
  first.open();
  ListenOptions options;
  options.port = first.listener->port();
  auto second = listen(io, options, make_key(), nullptr, nullptr);
  REQUIRE(!second.ok());
  CHECK(second.error().message.find("127.0.0.1:" + std::to_string(options.port)) != std::string::npos);
  options.addresses = {"not-an-address"};
  CHECK(!listen(io, options, make_key(), nullptr, nullptr).ok());
}

TEST_CASE("two keys are never the same") {
  CHECK(make_key() != make_key());
}

}  // namespace
}  // namespace elastictrain::transport
