#include "supervisor/control/control_server.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "supervisor/control/control_protocol.h"
#include "supervisor/transport/local_socket.h"
#include "tests/support/temporary_directory.h"

namespace elastictrain::control {
namespace {

using namespace std::chrono_literals;

struct Served {
  Served() {
    auto served = serve(io, directory.path, [this](std::string line, ControlServer::Answer answer) {
      if (line == "later") return later.push_back(std::move(answer));
      answer(line == "long" ? std::string(8u << 20, 'x') : "answer to " + line);
    });
    REQUIRE(served.ok());
    server = std::move(*served);
  }
  ~Served() {
    for (const int client : clients) ::close(client);
  }

  int connect() {
    clients.push_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto address = transport::LocalAddress::of(directory.path + "/" + kSocketName);
    REQUIRE(address.ok());
    REQUIRE(::connect(clients.back(), address->generic(), address->length()) == 0);
    io.poll();
    return clients.back();
  }
  int say(const std::string& text) {
    const int client = connect();
    CHECK(::send(client, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
    io.poll();
    return client;
  }
  // Empty: the server has closed the connection.
  std::string heard(int client) {
    std::string text(100, '\0');
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    ssize_t count = -1;
    while (count < 0 && std::chrono::steady_clock::now() < deadline) {
      io.run_one_for(10ms);
      count = ::recv(client, text.data(), text.size(), MSG_DONTWAIT);
    }
    CHECK(count >= 0);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    return text;
  }

  test::TemporaryDirectory directory;
  asio::io_context io;
  std::vector<ControlServer::Answer> later;
  std::unique_ptr<ControlServer> server;
  std::vector<int> clients;
};

TEST_CASE("clients that say nothing, half a request, or do not read keep nobody out") {
  for (const std::string text : {"", "half a request", "long\n"}) {
    CAPTURE(text);
    Served served;
    for (int i = 0; i < 200; ++i) served.say(text);
    CHECK(served.heard(served.say("status\n")) == "answer to status\n");
  }
}

TEST_CASE("whoever has been waited for longest goes, and nobody who waits for an answer") {
  Served served;
  const int waiting = served.say("later\n");
  const int oldest = served.say("half");
  for (int i = 0; i < 62; ++i) served.connect();
  const int next = served.clients[2];
  CHECK(::send(next, "status\n", 7, MSG_NOSIGNAL) == 7);
  CHECK(served.heard(next) == "answer to status\n");
  CHECK(served.heard(served.say("status\n")) == "answer to status\n");
  CHECK(served.heard(oldest).empty());
  served.later.front()("done");
  CHECK(served.heard(waiting) == "done\n");
}

}  // namespace
}  // namespace elastictrain::control
