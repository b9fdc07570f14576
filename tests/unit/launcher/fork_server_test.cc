#include "launcher/agent/fork_server.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>

#include <asio/io_context.hpp>
#include <functional>
#include <optional>
#include <string>

namespace launcher = elastictrain::launcher;
using elastictrain::Result;
using launcher::ForkedChild;
using launcher::ForkServer;
using launcher::ProcessSpec;

namespace {

using namespace std::chrono_literals;

struct Server {
  Server() {
    launcher::ForkServerSetup setup;
    setup.command = {{"python3"}, {"no_program.py"}};
    setup.modules = {"json"};
    setup.environment = launcher::merge_environment(
        launcher::own_environment(),
        {"PYTHONPATH=" ELASTICTRAIN_SOURCE_DIR "/train/python", "PYTHONDONTWRITEBYTECODE=1"});
    setup.time_limit = 60s;
    auto started = ForkServer::start(
        io, setup,
        {[this](const std::string& text) { said += text + "\n"; }, [this](const std::string& why) { given_up = why; }});
    REQUIRE(started.ok());
    server = std::move(*started);
    REQUIRE(run_until([this] { return said.find("imported json") != std::string::npos; }));
  }

  bool run_until(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (!done() && std::chrono::steady_clock::now() < deadline) io.run_one_for(10ms);
    return done();
  }

  // Its exit is there, but not seen yet.
  void kill() const {
    REQUIRE(::kill(server->pid(), SIGKILL) == 0);
    siginfo_t info{};
    REQUIRE(::waitid(P_PID, static_cast<id_t>(server->pid()), &info, WEXITED | WNOWAIT) == 0);
  }

  asio::io_context io;
  std::string said;
  std::string given_up;
  std::unique_ptr<ForkServer> server;
};

}  // namespace

TEST_CASE("who asks a server that has just ended is told how it ended, and so is everyone behind") {
  Server server;
  server.kill();
  std::string errors;
  int answers = 0;
  for (int i = 0; i < 2; ++i) {
    server.server->fork(ProcessSpec{}, {"no_program.py"}, [&](const Result<ForkedChild>& child) {
      ++answers;
      CHECK_FALSE(child.ok());
      if (!child.ok()) errors += child.error().message + "\n";
    });
  }
  CHECK(server.run_until([&] { return answers == 2; }));
  CHECK(errors == "it ended by signal 9\nit ended by signal 9\n");
  CHECK(server.given_up.find(
            "no worker of this host is forked from a process that has imported json: it ended by signal 9") !=
        std::string::npos);
  CHECK_FALSE(server.server->usable());
}
