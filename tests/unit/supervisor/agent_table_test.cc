// How an agent's connection ends and is restored: the real table and transport, with agents simulated by the test.
#include "supervisor/agent_table.h"

#include <doctest/doctest.h>

#include <asio/io_context.hpp>
#include <map>

#include "supervisor/protocol/codec.h"
#include "supervisor/protocol/limits.h"

namespace elastictrain {
namespace {

using core::LossEvidence;
using std::chrono::milliseconds;

constexpr AgentId kAgent{1};

struct FakeLauncher final : launcher::Launcher {
  launcher::Capabilities capabilities() const override { return {"fake", true, false}; }
  std::vector<std::string> command_line(const std::string&) const override { return {}; }
  void launch(launcher::AgentSpec spec) override { bootstraps[spec.agent] = spec.bootstrap; }
  void forget(AgentId agent) override { forgotten.push_back(agent); }
  std::map<AgentId, protocol::AgentBootstrap> bootstraps;
  std::vector<AgentId> forgotten;
};

struct Loss {
  AgentId agent;
  std::string reason;
  LossEvidence evidence;
};

// The other end of one connection.
struct Client {
  std::shared_ptr<transport::FrameConnection> connection;
  std::vector<protocol::AgentDown> received;
  bool closed = false;

  void say(const protocol::AgentUp& message) { connection->send(protocol::encode_frame(message)); }
  template <class T>
  const T* find() const {
    for (const auto& message : received) {
      if (const auto* one = std::get_if<T>(&message)) return one;
    }
    return nullptr;
  }
};

struct Scene {
  Scene() {
    AgentTableOptions options;
    options.bootstrap.addresses = {"127.0.0.1"};
    options.tick = milliseconds(20);
    AgentHooks hooks;
    hooks.on_connected = [this](AgentId, const protocol::AgentHello& hello) { hellos.push_back(hello); };
    hooks.on_lost = [this](AgentId agent, const std::string& reason, LossEvidence evidence) {
      losses.push_back({agent, reason, evidence});
    };
    hooks.on_message = [this](AgentId, protocol::AgentUp message) { messages.push_back(std::move(message)); };
    hooks.on_rejected = [this](const std::string&, const std::string& reason) { rejected.push_back(reason); };
    table = std::make_unique<AgentTable>(io, std::move(options), launcher, std::move(hooks));
    REQUIRE(table->open().ok());
    table->launch(kAgent, "node");
  }

  bool pump(const std::function<bool()>& holds, milliseconds patience = milliseconds(20'000)) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (!holds() && std::chrono::steady_clock::now() < deadline) {
      io.restart();
      io.run_one_for(milliseconds(20));
    }
    return holds();
  }
  void pass(milliseconds time) {
    pump([] { return false; }, time);
  }

  // A connection that has sent hello as `agent`.
  std::shared_ptr<Client> connect(AgentId agent = kAgent) {
    auto client = std::make_shared<Client>();
    const auto& start = launcher.bootstraps.at(kAgent);
    transport::connect(io, start.addresses, start.port, start.key, milliseconds(20'000), {},
                       [client](Result<std::shared_ptr<transport::FrameConnection>> made) {
                         REQUIRE(made.ok());
                         client->connection = *made;
                       });
    REQUIRE(pump([&] { return client->connection != nullptr; }));
    const std::weak_ptr<Client> weak = client;
    client->connection->start(
        [weak](const std::string& body) {
          auto message = protocol::decode_body<protocol::AgentDown>(body);
          if (const auto self = weak.lock(); self && message.ok()) self->received.push_back(std::move(*message));
        },
        [weak](const Error&) {
          if (const auto self = weak.lock()) self->closed = true;
        });
    protocol::AgentHello hello{limits::kProtocolVersion, ELASTICTRAIN_VERSION, agent, "node", 1};
    hello.workers = {WorkerId{7}};
    client->say(hello);
    return client;
  }

  std::shared_ptr<Client> connected() {
    auto client = connect();
    const auto before = hellos.size();
    REQUIRE(pump([&] { return hellos.size() > before; }));
    return client;
  }

  void launch_ends(bool launched, bool agent_ended) {
    table->launch_ended({kAgent, launched, 0, 9, "node: its agent ended with signal 9 (Killed)", agent_ended});
  }

  asio::io_context io;
  FakeLauncher launcher;
  std::unique_ptr<AgentTable> table;
  std::vector<protocol::AgentHello> hellos;
  std::vector<Loss> losses;
  std::vector<protocol::AgentUp> messages;
  std::vector<std::string> rejected;
};

TEST_CASE("a closed connection is a loss with little information, and the agent may reconnect") {
  Scene scene;
  auto client = scene.connected();
  client->connection->close();
  REQUIRE(scene.pump([&] { return !scene.losses.empty(); }));
  CHECK(scene.losses[0].evidence == LossEvidence::kConnection);
  CHECK(scene.launcher.forgotten.empty());
  client = scene.connected();
  CHECK(scene.hellos.back().workers == std::vector<WorkerId>{WorkerId{7}});
  client->say(protocol::HostNotice{"x"});
  CHECK(scene.pump([&] { return scene.messages.size() == 1; }));
  CHECK(scene.losses.size() == 1);
}

TEST_CASE("the end of the agent's process is reported after that of its connection, or together with it") {
  SUBCASE("the connection ends first") {
    Scene scene;
    scene.connected()->connection->close();
    REQUIRE(scene.pump([&] { return !scene.losses.empty(); }));
    scene.launch_ends(true, true);
    REQUIRE(scene.losses.size() == 2);
    CHECK(scene.losses[0].evidence == LossEvidence::kConnection);
    CHECK(scene.losses[1].evidence == LossEvidence::kProcess);
    CHECK(scene.losses[1].reason.find("signal 9") != std::string::npos);
  }
  SUBCASE("the process ends first") {
    Scene scene;
    const auto client = scene.connected();
    scene.launch_ends(true, true);
    client->say(protocol::HostNotice{"last words"});
    scene.pass(milliseconds(50));
    client->connection->close();
    REQUIRE(scene.pump([&] { return !scene.losses.empty(); }));
    CHECK(scene.losses[0].evidence == LossEvidence::kProcess);
    CHECK(scene.messages.size() == 1);
  }
  SUBCASE("the process ends and its connection does not notice") {
    Scene scene;
    const auto client = scene.connected();
    scene.launch_ends(true, true);
    REQUIRE(scene.pump([&] { return !scene.losses.empty(); }));
    CHECK(scene.losses[0].evidence == LossEvidence::kProcess);
  }
}

TEST_CASE("the end of an ssh is not the end of its agent") {
  Scene scene;
  const auto client = scene.connected();
  scene.launch_ends(true, false);
  client->say(protocol::HostNotice{"still here"});
  CHECK(scene.pump([&] { return scene.messages.size() == 1; }));
  CHECK(scene.losses.empty());
}

TEST_CASE("a failed launch is reported, and an agent that connects all the same is stopped") {
  Scene scene;
  scene.launch_ends(false, false);
  REQUIRE(scene.losses.size() == 1);
  CHECK(scene.losses[0].evidence == LossEvidence::kNeverCame);
  const auto late = scene.connect();
  REQUIRE(scene.pump([&] { return late->find<protocol::StopAgent>() != nullptr; }));
  CHECK(scene.hellos.empty());
}

TEST_CASE("an agent that connects anew takes the place of its older connection, which may be half open") {
  Scene scene;
  const auto older = scene.connected();
  const auto newer = scene.connected();
  REQUIRE(scene.losses.size() == 1);
  CHECK(scene.losses[0].evidence == LossEvidence::kConnection);
  CHECK(scene.losses[0].reason.find("has reconnected") != std::string::npos);
  CHECK(scene.hellos.size() == 2);
  CHECK(scene.pump([&] { return older->closed; }));
  older->say(protocol::HostNotice{"from the dead"});
  newer->say(protocol::HostNotice{"new"});
  REQUIRE(scene.pump([&] { return !scene.messages.empty(); }));
  CHECK(std::get<protocol::HostNotice>(scene.messages[0]).reason == "new");
  CHECK(scene.table->connection_of(kAgent) != nullptr);
}

TEST_CASE("an agent that was given up is stopped at once when it reconnects, without a report") {
  Scene scene;
  scene.connected()->connection->close();
  REQUIRE(scene.pump([&] { return !scene.losses.empty(); }));
  scene.table->stop(kAgent, milliseconds(0));
  CHECK(scene.launcher.forgotten == std::vector<AgentId>{kAgent});
  const auto back = scene.connect();
  REQUIRE(scene.pump([&] { return back->find<protocol::StopAgent>() != nullptr; }));
  CHECK(back->find<protocol::StopAgent>()->grace_ms == 0);
  back->say(protocol::HostNotice{"x"});
  scene.pass(milliseconds(100));
  CHECK(scene.hellos.size() == 1);
  CHECK(scene.messages.empty());
  CHECK_FALSE(scene.table->any_connected());
}

TEST_CASE("an agent stopped over a silent connection is stopped again with its remaining grace") {
  Scene scene;
  const auto client = scene.connected();
  scene.table->stop(kAgent, milliseconds(60'000));
  const auto back = scene.connect();
  REQUIRE(scene.pump([&] { return back->find<protocol::StopAgent>() != nullptr; }));
  CHECK(back->find<protocol::StopAgent>()->grace_ms > 30'000);
}

TEST_CASE("connections and processes are counted through every way in which they begin and end") {
  Scene scene;
  CHECK_FALSE(scene.table->any_connected());
  CHECK(scene.table->any_process());
  const auto older = scene.connected();
  CHECK(scene.table->any_connected());
  const auto newer = scene.connect();  // displaces the older one
  REQUIRE(scene.pump([&] { return older->closed; }));
  CHECK(scene.table->any_connected());
  newer->connection->close();
  REQUIRE(scene.pump([&] { return !scene.table->any_connected(); }));
  const auto back = scene.connect();
  REQUIRE(scene.pump([&] { return scene.table->any_connected(); }));
  scene.table->launch_ended({.agent = kAgent, .launched = true, .message = "", .agent_ended = false});
  scene.table->launch_ended({.agent = kAgent, .launched = true, .message = "", .agent_ended = true});
  CHECK_FALSE(scene.table->any_process());
  scene.table->adopt(AgentId{2}, "other");
  CHECK_FALSE(scene.table->any_process());
  scene.table->launch(AgentId{3}, "third");
  CHECK(scene.table->any_process());
  scene.table->forget_all();
  scene.table->forget_all();
  CHECK_FALSE(scene.table->any_connected());
  CHECK(scene.table->any_process());
  scene.table->launch_ended({.agent = AgentId{3}, .launched = false, .message = "", .agent_ended = true});
  CHECK_FALSE(scene.table->any_process());
}

TEST_CASE("an agent that was not launched is reported and stopped") {
  Scene scene;
  const auto stray = scene.connect(AgentId{99});
  REQUIRE(scene.pump([&] { return stray->find<protocol::StopAgent>() != nullptr; }));
  REQUIRE(scene.rejected.size() == 1);
  CHECK(scene.rejected[0].find("which was not launched") != std::string::npos);
}

TEST_CASE("an agent that broke a rule is not let in again") {
  Scene scene;
  const auto client = scene.connected();
  client->connection->send(std::string("\x03\0\0\0abc", 7));
  REQUIRE(scene.pump([&] { return !scene.losses.empty(); }));
  const auto back = scene.connect();
  REQUIRE(scene.pump([&] { return back->find<protocol::StopAgent>() != nullptr; }));
  CHECK(scene.hellos.size() == 1);
}

TEST_CASE("heartbeats acknowledge the last report of their own connection") {
  Scene scene;
  const auto acknowledged = [](const Client& client, std::uint64_t report) {
    for (const auto& message : client.received) {
      const auto* heartbeat = std::get_if<protocol::SupervisorHeartbeat>(&message);
      if (heartbeat != nullptr && heartbeat->acknowledged_report == report) return true;
    }
    return false;
  };
  const auto first = scene.connected();
  first->say(protocol::AgentReport{41, {}});
  CHECK(scene.pump([&] { return acknowledged(*first, 41); }));
  const auto second = scene.connected();
  CHECK(scene.pump([&] { return acknowledged(*second, 0); }));
  CHECK_FALSE(acknowledged(*second, 41));
  second->say(protocol::AgentReport{42, {}});
  CHECK(scene.pump([&] { return acknowledged(*second, 42); }));
}

}  // namespace
}  // namespace elastictrain
