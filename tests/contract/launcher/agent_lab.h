// Purpose: one real agent, with the test as its supervisor and as one of its workers.
#pragma once

#include <doctest/doctest.h>
#include <signal.h>

#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/write.hpp>
#include <optional>

#include "fake_supervisor.h"
#include "launcher/agent/agent.h"
#include "launcher/process/command.h"
#include "supervisor/protocol/agent_messages.h"
#include "supervisor/protocol/limits.h"

namespace elastictrain::testing {

using launcher::Command;
using launcher::CommandEnd;
using launcher::CommandSpec;

inline constexpr WorkerId kWorker{3};

// One agent and its supervisor. Its destructor kills all processes that a test leaves running.
struct Lab {
  using Change = std::function<void(AgentBootstrap&)>;

  explicit Lab(std::uint64_t orphan_grace_ms = 60'000, const std::string& interface = "")
      : Lab([&](AgentBootstrap& bootstrap) {
          bootstrap.orphan_grace_ms = orphan_grace_ms;
          bootstrap.interface = interface;
        }) {}

  explicit Lab(const Change& change, std::vector<std::string> argv = {TEST_AGENT, "agent"}) : supervisor(io) {
    ::setenv("XDG_RUNTIME_DIR", directory.path.c_str(), 1);
    auto bootstrap = supervisor.bootstrap(AgentId{1});
    change(bootstrap);
    start(encode_frame(Bootstrap(bootstrap)), std::move(argv));
    REQUIRE(supervisor.await<AgentHello>(0));
  }

  ~Lab() {
    if (end.has_value() || !command) return;
    command->terminate();
    CHECK(supervisor.pump([&] { return end.has_value(); }));
  }

  void start(std::string input, std::vector<std::string> argv) {
    CommandSpec spec{.argv = std::move(argv)};
    spec.stop_signal = SIGINT;
    spec.input = std::move(input);
    spec.sweep_session = true;
    auto started = Command::start(io, std::move(spec), nullptr, [this](CommandEnd e) { end = std::move(e); });
    REQUIRE(started.ok());
    command = std::move(*started);
  }

  void spawn(const std::string& script, WorkerId worker = kWorker, std::size_t agent = 0) {
    SpawnWorker order{worker, 0, {"sh", "-c", script}, {"EXTRA=yes"}, "/"};
    supervisor.send(agent, order);
  }

  // Breaks the connection and waits until the agent has reconnected.
  void break_connection() {
    const auto count = supervisor.agents.size();
    supervisor.agents.back()->connection->close();
    supervisor.agents.back()->closed = true;
    REQUIRE(supervisor.await<AgentHello>(count));
  }

  pid_t pid_of(const std::string& line) const { return std::stoi(line.substr(line.find('=') + 1)); }

  WorkerExited await_exit(WorkerId worker = kWorker, std::size_t agent = 0) {
    std::optional<WorkerExited> exited;
    CHECK(supervisor.pump([&] {
      for (const auto& one : supervisor.all<WorkerExited>(agent)) {
        if (one.worker == worker) exited = one;
      }
      return exited.has_value();
    }));
    return exited.value_or(WorkerExited{});
  }

  bool await_end() {
    return supervisor.pump([&] { return end.has_value(); });
  }

  std::string socket_path() {
    spawn("echo $ELASTICTRAIN_SOCKET; trap 'exit 0' TERM; while :; do sleep 0.05; done");
    REQUIRE(supervisor.await_line(0, kWorker, ".sock"));
    return supervisor.lines(0, kWorker).front();
  }

  TemporaryDirectory directory;
  asio::io_context io;
  FakeSupervisor supervisor;
  std::shared_ptr<Command> command;
  std::optional<CommandEnd> end;
};

struct WorkerSide {
  WorkerSide(asio::io_context& io, const std::string& path) : socket(io) {
    socket.connect(asio::local::stream_protocol::endpoint(path));
  }
  void say(const WorkerToAgent& message) { asio::write(socket, asio::buffer(encode_frame(message))); }
  asio::local::stream_protocol::socket socket;
};

// Starts a script that prints the name of its worker's socket first, and greets the agent in its place.
inline WorkerSide begin_worker(Lab& lab, const std::string& script) {
  lab.spawn(script);
  REQUIRE(lab.supervisor.await_line(0, kWorker, ".sock"));
  WorkerSide worker(lab.io, lab.supervisor.lines(0, kWorker).front());
  worker.say(WorkerHello{limits::kProtocolVersion, kWorker, 1, "test"});
  REQUIRE(lab.supervisor.await<FromWorker>(0));
  return worker;
}

inline std::size_t entries(const std::string& path) {
  namespace fs = std::filesystem;
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(path), fs::directory_iterator()));
}

}  // namespace elastictrain::testing
