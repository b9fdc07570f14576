// What one user of a cluster's socket can take from the others.
#include "supervisor/cluster/cluster_server.h"

#include <doctest/doctest.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "supervisor/cluster/lease_protocol.h"
#include "supervisor/transport/local_socket.h"
#include "tests/support/temporary_directory.h"

namespace elastictrain::cluster {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kEve = 4001, kBob = 4002;

struct Peers {
  ~Peers() {
    for (const int socket : sockets) ::close(socket);
  }
  std::vector<int> sockets;
};

// A server that takes each connection for one of the user who comes next.
class Server {
 public:
  explicit Server(ServerBounds bounds = {}) {
    ClusterServer::Handlers handlers;
    handlers.line = [this](std::uint64_t connection, const Peer& peer, const std::string& line) {
      ++lines[peer.uid];
      last = connection;
      if (line == "keep") server->keep(connection);
      if (line == "record") server->note_record(connection);
      if (!answer.empty()) server->send(connection, answer);
    };
    handlers.closed = [](std::uint64_t) {};
    const auto who_is = [this](int) {
      const Peer peer{next.front(), 1};
      next.pop_front();
      return std::optional<Peer>(peer);
    };
    auto made = ClusterServer::listen(io, directory.path, true, std::move(handlers), bounds, who_is);
    REQUIRE(made.ok());
    server = std::move(*made);
  }

  int connect(std::uint32_t user) {
    next.push_back(user);
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const auto address = transport::LocalAddress::of(socket_of_cluster(directory.path));
    REQUIRE(address.ok());
    REQUIRE(::connect(socket, address->generic(), address->length()) == 0);
    peers.sockets.push_back(socket);
    run_until([this] { return next.empty(); });
    return socket;
  }
  void say(int socket, const std::string& text) {
    for (std::size_t sent = 0; sent < text.size();) {
      const ssize_t count = ::send(socket, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (count > 0) sent += static_cast<std::size_t>(count);
      if (count < 0 && errno != EAGAIN) return;
      io.poll();
      if (count < 0 && ++full > 100) return;
    }
  }
  static bool is_closed(int socket) {
    char byte;
    return ::recv(socket, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
  }
  // Why it was not taken; then it is closed.
  static std::string refusal(int socket) {
    std::string text(1000, '\0');
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(::recv(socket, text.data(), text.size(), MSG_DONTWAIT), 0)));
    return is_closed(socket) ? text : "";
  }
  bool run_until(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    while (!done() && std::chrono::steady_clock::now() < deadline) io.run_one_for(10ms);
    return done();
  }

  test::TemporaryDirectory directory;
  asio::io_context io;
  std::deque<std::uint32_t> next;
  std::map<std::uint32_t, int> lines;
  std::string answer;
  std::uint64_t last = 0;  // connection that has said something
  int full = 0;            // times that a socket took nothing more
  Peers peers;
  std::unique_ptr<ClusterServer> server;
};

TEST_CASE("one user has so many connections, all others together leave places for the cluster's own user and root") {
  ServerBounds bounds;
  bounds.connections = 8;
  bounds.kept_connections = 3;
  bounds.connections_of_user = 4;
  Server server(bounds);
  for (int i = 0; i < 6; ++i) server.connect(kEve);
  CHECK(server.server->connections() == 4);
  server.connect(kBob);
  CHECK(server.server->connections() == 5);
  CHECK(Server::refusal(server.connect(kBob)).find("no place for another connection") != std::string::npos);
  for (int i = 0; i < 3; ++i) CHECK_FALSE(Server::is_closed(server.connect(::geteuid())));
  CHECK(Server::refusal(server.connect(::geteuid())).find("no place for another connection") != std::string::npos);
  ::shutdown(server.peers.sockets.front(), SHUT_RDWR);
  CHECK(server.run_until([&] { return server.server->connections() == 7; }));
  CHECK_FALSE(Server::is_closed(server.connect(0)));
}

TEST_CASE("nothing is read from a peer that does not read its answer") {
  for (const std::uint32_t user : {kEve, static_cast<std::uint32_t>(::geteuid())}) {
    Server server;
    server.answer = std::string(4u << 20, 'a');
    const int socket = server.connect(user);
    std::string requests;
    for (int i = 0; i < 1000; ++i) requests += "queue\n";
    server.say(socket, requests);
    server.io.run_for(100ms);
    CHECK(server.lines[user] == 1);
  }
}

TEST_CASE("who says too much is read later, and others are read at once") {
  ServerBounds bounds;
  bounds.lines_at_once = 50;
  bounds.lines_per_s = 0.001;
  Server server(bounds);
  std::string flood;
  for (int i = 0; i < 10'000; ++i) flood += "x\n";
  for (int i = 0; i < 4; ++i) server.say(server.connect(kEve), flood);
  server.say(server.connect(kBob), "x\nx\n");
  server.say(server.connect(::geteuid()), flood);
  CHECK(server.run_until([&] { return server.lines[::geteuid()] == 10'000; }));
  CHECK(server.lines[kBob] == 2);
  CHECK(server.lines[kEve] <= 60);
  CHECK(server.lines[kEve] >= 40);
}

TEST_CASE("many connections that ask at once get no more than one that asks often") {
  ServerBounds bounds;
  bounds.lines_at_once = 50;
  bounds.lines_per_s = 0.001;
  Server server(bounds);
  server.answer = std::string(1u << 20, 'a');
  std::vector<int> sockets;
  for (int i = 0; i < 20; ++i) sockets.push_back(server.connect(kEve));
  server.io.run_for(20ms);  // all are listened to
  for (const int socket : sockets) server.say(socket, "queue\n");
  server.io.run_for(100ms);
  CHECK(server.lines[kEve] == 1);
}

TEST_CASE("lines that are not whole, on all connections of a user, are read up to a bound") {
  ServerBounds bounds;
  bounds.bytes_of_user = 300'000;
  Server server(bounds);
  std::size_t taken = 0;
  for (int i = 0; i < 40; ++i) {
    const int socket = server.connect(kEve);
    const std::string part(100'000, 'x');
    const ssize_t count = ::send(socket, part.data(), part.size(), MSG_NOSIGNAL);
    const auto is_read = [socket] {
      int unread = 0;
      ::ioctl(socket, SIOCOUTQ, &unread);
      return unread == 0;
    };
    if (taken < bounds.bytes_of_user) {
      CHECK(server.run_until(is_read));
    } else {
      server.io.run_for(5ms);
    }
    taken += is_read() ? static_cast<std::size_t>(count) : 0;
  }
  CHECK(taken >= 300'000);
  CHECK(taken <= 500'000);
  server.say(server.connect(kBob), "x\n");
  CHECK(server.run_until([&] { return server.lines[kBob] == 1; }));
}

TEST_CASE("what waits for a user who does not read is bounded over all connections") {
  ServerBounds bounds;
  bounds.bytes_of_user = 3'000'000;
  Server server(bounds);
  std::vector<std::uint64_t> connections;
  for (int i = 0; i < 10; ++i) {
    server.say(server.connect(kEve), "keep\n");
    server.run_until([&] { return server.lines[kEve] == i + 1; });
    connections.push_back(server.last);
  }
  for (const std::uint64_t connection : connections) {
    for (int i = 0; i < 3; ++i) server.server->send(connection, std::string(500'000, 'a'));
  }
  CHECK(server.server->connections() <= 3);
  CHECK(server.server->connections() >= 1);
}

TEST_CASE("who reads has room for a line, whatever another connection of the user does not read") {
  ServerBounds bounds;
  bounds.bytes_of_user = 1'000'000;
  Server server(bounds);
  server.say(server.connect(kEve), "keep\n");
  server.run_until([&] { return server.lines[kEve] == 1; });
  const std::uint64_t silent = server.last;
  const int reader = server.connect(kEve);
  server.say(reader, "keep\n");
  server.run_until([&] { return server.lines[kEve] == 2; });
  server.server->send(silent, std::string(4'000'000, 'a'));
  server.server->send(server.last, "lease");
  CHECK(server.server->connections() == 2);
  char line[10];
  CHECK(::recv(reader, line, sizeof line, MSG_DONTWAIT) == 6);
}

TEST_CASE("a peer that is to be closed and does not read is closed in time, be it a run or not") {
  ServerBounds bounds;
  bounds.silence = 50ms;
  Server server(bounds);
  server.say(server.connect(kEve), "keep\n");
  server.run_until([&] { return server.lines[kEve] == 1; });
  server.server->send(server.last, std::string(4u << 20, 'a'));
  server.io.run_for(100ms);
  CHECK(server.server->connections() == 1);
  server.server->close(server.last);
  CHECK(server.run_until([&] { return server.server->connections() == 0; }));
}

TEST_CASE("a line that is too long, of a peer for whom too much waits, ends the connection and nothing else") {
  ServerBounds bounds;
  bounds.waiting_bytes = 500'000;
  Server server(bounds);
  const int socket = server.connect(kEve);
  server.say(socket, "keep\n");
  server.run_until([&] { return server.lines[kEve] == 1; });
  server.io.run_for(20ms);  // it is listened to
  server.server->send(server.last, std::string(1'000'000, 'a'));
  server.say(socket, std::string(200'000, 'x'));
  CHECK(server.run_until([&] { return server.server->connections() == 0; }));
}

TEST_CASE("lines that are too long count, too, and while a user has said too much nothing is read") {
  ServerBounds bounds;
  bounds.lines_at_once = 100;
  bounds.lines_per_s = 0.001;
  Server server(bounds);
  std::size_t taken = 0;
  for (int i = 0; i < 20; ++i) {
    const int socket = server.connect(kEve);
    server.say(socket, std::string(bounds.line_bytes, 'x'));
    server.io.run_for(20ms);
    taken += Server::refusal(socket).empty() ? 0 : 1;
  }
  CHECK(taken == 3);  // 33 lines each, and the answer one
}

TEST_CASE("who has said much that was written down is read later, be it over many connections") {
  ServerBounds bounds;
  bounds.records_at_once = 20;
  bounds.records_per_s = 0.001;
  Server server(bounds);
  for (const std::uint32_t user : {kEve, static_cast<std::uint32_t>(::geteuid())}) {
    for (int i = 0; i < 50; ++i) server.say(server.connect(user), "record\n");
  }
  CHECK(server.run_until([&] { return server.lines[::geteuid()] == 50; }));
  CHECK(server.lines[kEve] == 21);
}

TEST_CASE("lines of who has gone take no turn of those who wait") {
  ServerBounds bounds;
  bounds.lines_at_once = 10;
  bounds.lines_per_s = 20;
  Server server(bounds);
  for (int i = 0; i < 50; ++i) server.say(server.connect(kEve), "x\n");
  for (const int socket : server.peers.sockets) ::shutdown(socket, SHUT_RDWR);
  CHECK(server.run_until([&] { return server.server->connections() == 0; }));
  CHECK(server.lines[kEve] < 30);
}

TEST_CASE("a delay ends, and nothing is lost") {
  ServerBounds bounds;
  bounds.lines_at_once = 10;
  bounds.lines_per_s = 1000;
  Server server(bounds);
  std::string flood;
  for (int i = 0; i < 300; ++i) flood += "x\n";
  server.say(server.connect(kEve), flood);
  CHECK(server.run_until([&] { return server.lines[kEve] == 300; }));
}

TEST_CASE("long lines and answers count as several, and a line of another user has its own bound") {
  ServerBounds bounds;
  bounds.lines_at_once = 50;
  bounds.lines_per_s = 0.001;
  Server server(bounds);
  const std::string line = std::string(40'000, 'x') + "\n";
  std::string flood;
  for (int i = 0; i < 20; ++i) flood += line;
  server.say(server.connect(kEve), flood);
  CHECK(server.run_until([&] { return server.lines[kEve] == 5; }));  // ten and a half each
  server.io.run_for(100ms);
  CHECK(server.lines[kEve] == 5);
  const int socket = server.connect(kBob);
  server.say(socket, std::string(200'000, 'x'));
  CHECK(server.run_until([&] { return server.server->connections() == 1; }));
}

}  // namespace
}  // namespace elastictrain::cluster
