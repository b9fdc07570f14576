// Two hosts as one: the real table and transport, with the agents of both hosts simulated by the test.
#include "supervisor/agent_groups.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <map>

#include "supervisor/protocol/codec.h"
#include "supervisor/protocol/limits.h"

namespace elastictrain {
namespace {

using core::LossEvidence;
using std::chrono::milliseconds;

constexpr AgentId kLead{1};
constexpr AgentId kMate = mate_of(kLead, 1);
constexpr WorkerId kReplica{7};

struct GroupLauncher final : launcher::Launcher {
  launcher::Capabilities capabilities() const override { return {"fake", true, false}; }
  std::vector<std::string> command_line(const std::string&) const override { return {}; }
  void launch(launcher::AgentSpec spec) override { bootstraps[spec.agent] = spec.bootstrap; }
  void forget(AgentId agent) override { forgotten.push_back(agent); }
  void adopt(const std::string& host) override { adopted.push_back(host); }
  std::map<AgentId, protocol::AgentBootstrap> bootstraps;
  std::vector<AgentId> forgotten;
  std::vector<std::string> adopted;
};

// The other end of one connection.
struct GroupHost {
  std::shared_ptr<transport::FrameConnection> connection;
  std::vector<protocol::AgentDown> received;

  void say(const protocol::AgentUp& message) { connection->send(protocol::encode_frame(message)); }
  template <class T>
  std::vector<T> all() const {
    std::vector<T> found;
    for (const auto& message : received) {
      if (const auto* one = std::get_if<T>(&message)) found.push_back(*one);
    }
    return found;
  }
};

using HostPtr = std::shared_ptr<GroupHost>;

struct GroupScene {
  explicit GroupScene(bool taken_over = false) {
    AgentTableOptions options;
    options.bootstrap.addresses = {"127.0.0.1"};
    options.tick = milliseconds(20);
    AgentHooks hooks;
    hooks.on_connected = [this](AgentId agent, const protocol::AgentHello& hello) {
      CHECK(agent == kLead);
      hellos.push_back(hello);
    };
    hooks.on_lost = [this](AgentId agent, const std::string& reason, LossEvidence evidence) {
      CHECK(agent == kLead);
      reasons.push_back(reason);
      evidences.push_back(evidence);
    };
    hooks.on_message = [this](AgentId agent, protocol::AgentUp message) {
      CHECK(agent == kLead);
      messages.push_back(std::move(message));
    };
    hooks.on_rejected = [](const std::string&, const std::string&) {};
    const GroupTimes times{milliseconds(50), milliseconds(60), milliseconds(50), milliseconds(50)};
    groups = std::make_unique<AgentGroups>(io, 2, std::move(options), launcher, std::move(hooks), times);
    REQUIRE(groups->table().open().ok());
    start = groups->table().options().bootstrap;
    if (taken_over)
      groups->adopt(kLead, "a+b");
    else
      groups->launch(kLead, "a+b");
  }

  bool pump(const std::function<bool()>& holds) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!holds() && std::chrono::steady_clock::now() < deadline) {
      io.restart();
      io.run_one_for(milliseconds(20));
    }
    return holds();
  }
  // Until what was said before has arrived.
  void settle(const HostPtr& client) {
    const std::size_t before = outputs();
    client->say(protocol::WorkerOutput{kReplica, false, {"mark"}, 0, {}});
    REQUIRE(pump([&] { return outputs() > before; }));
  }
  std::size_t outputs() const { return all<protocol::WorkerOutput>().size(); }

  HostPtr connect(AgentId agent, std::vector<WorkerId> workers = {}) {
    auto client = std::make_shared<GroupHost>();
    transport::connect(io, start.addresses, start.port, start.key, milliseconds(20'000), {},
                       [client](Result<std::shared_ptr<transport::FrameConnection>> made) {
                         REQUIRE(made.ok());
                         client->connection = *made;
                       });
    REQUIRE(pump([&] { return client->connection != nullptr; }));
    const std::weak_ptr<GroupHost> weak = client;
    client->connection->start(
        [weak](const std::string& body) {
          auto message = protocol::decode_body<protocol::AgentDown>(body);
          if (const auto self = weak.lock(); self && message.ok()) self->received.push_back(std::move(*message));
        },
        [](const Error&) {});
    protocol::AgentHello hello{limits::kProtocolVersion, ELASTICTRAIN_VERSION, agent, "node", 1};
    hello.cores = agent == kLead ? 11 : 22;
    hello.workers = std::move(workers);
    client->say(hello);
    return client;
  }

  void connect_both(const std::vector<WorkerId>& at_lead = {}, const std::vector<WorkerId>& at_mate = {}) {
    const std::size_t before = hellos.size();
    lead = connect(kLead, at_lead);
    mate = connect(kMate, at_mate);
    REQUIRE(pump([&] { return hellos.size() == before + 1; }));
  }

  // A worker with a part on the mate.
  void spawn() {
    groups->spawn(kLead, {kReplica, 3, {"program"}, {"A=1"}, "/tmp", false, {}});
    REQUIRE(pump([&] { return lead->all<protocol::SpawnWorker>().size() == 1; }));
    lead->say(protocol::WorkerSpawned{kReplica, 100});
    lead->say(protocol::ReplicaListens{kReplica, "10.0.0.1:4000"});
    REQUIRE(pump([&] { return mate->all<protocol::SpawnWorker>().size() == 1; }));
  }

  template <class T>
  std::vector<T> all() const {
    std::vector<T> found;
    for (const auto& message : messages) {
      if (const auto* one = std::get_if<T>(&message)) found.push_back(*one);
    }
    return found;
  }
  bool exits(const HostPtr& client, protocol::WorkerExited exited) {
    client->say(exited);
    return pump([&] { return !all<protocol::WorkerExited>().empty(); });
  }

  asio::io_context io;
  GroupLauncher launcher;
  std::unique_ptr<AgentGroups> groups;
  protocol::AgentBootstrap start;
  HostPtr lead;
  HostPtr mate;
  std::vector<protocol::AgentHello> hellos;
  std::vector<std::string> reasons;
  std::vector<LossEvidence> evidences;
  std::vector<protocol::AgentUp> messages;
};

TEST_CASE("a group is connected when all of its hosts are, as its lead") {
  GroupScene scene;
  CHECK(scene.launcher.bootstraps.at(kLead).host == "a");
  CHECK(scene.launcher.bootstraps.at(kMate).host == "b");
  scene.mate = scene.connect(kMate);
  scene.settle(scene.mate);
  CHECK(scene.hellos.empty());
  CHECK(scene.groups->connection_of(kLead) == nullptr);
  scene.lead = scene.connect(kLead);
  REQUIRE(scene.pump([&] { return !scene.hellos.empty(); }));
  CHECK(scene.hellos[0].cores == 11);
  CHECK(scene.groups->connection_of(kLead) != nullptr);
}

TEST_CASE("a worker is started on the lead, then with its address on the mates") {
  GroupScene scene;
  scene.connect_both();
  scene.groups->spawn(kLead, {kReplica, 3, {"program"}, {"A=1"}, "/tmp", false, {}});
  REQUIRE(scene.pump([&] { return scene.lead->all<protocol::SpawnWorker>().size() == 1; }));
  scene.settle(scene.mate);
  CHECK(scene.mate->all<protocol::SpawnWorker>().empty());
  scene.lead->say(protocol::ReplicaListens{kReplica, "10.0.0.1:4000"});
  scene.lead->say(protocol::ReplicaListens{kReplica, "10.0.0.1:4000"});  // as after a reconnect
  REQUIRE(scene.pump([&] { return !scene.mate->all<protocol::SpawnWorker>().empty(); }));
  scene.settle(scene.lead);
  const auto first = scene.lead->all<protocol::SpawnWorker>().at(0);
  REQUIRE(scene.mate->all<protocol::SpawnWorker>().size() == 1);
  const auto part = scene.mate->all<protocol::SpawnWorker>().at(0);
  CHECK(first.replica.host == 0);
  CHECK(first.replica.hosts == 2);
  CHECK(part.replica.host == 1);
  CHECK(part.replica.address == "10.0.0.1:4000");
  CHECK(part.replica.key == first.replica.key);
  CHECK(part.replica.key != decltype(part.replica.key){});
  CHECK(part.slot == 3);
  CHECK(part.environment == std::vector<std::string>{"A=1"});
  CHECK(scene.all<protocol::ReplicaListens>().empty());
}

TEST_CASE("a worker has ended when its parts have") {
  GroupScene scene;
  scene.connect_both();
  scene.spawn();
  SUBCASE("the first process ends first") {
    scene.lead->say(protocol::WorkerExited{kReplica, 0, 0, {}});
    scene.settle(scene.lead);
    CHECK(scene.all<protocol::WorkerExited>().empty());
    REQUIRE(scene.exits(scene.mate, {kReplica, 0, 0, {}}));
  }
  SUBCASE("a part ends first, in order") {
    scene.mate->say(protocol::WorkerExited{kReplica, 0, 0, {}});
    scene.settle(scene.mate);
    CHECK(scene.all<protocol::WorkerExited>().empty());
    CHECK(scene.lead->all<protocol::StopWorker>().empty());
    REQUIRE(scene.exits(scene.lead, {kReplica, 0, 0, {}}));
  }
  CHECK(scene.all<protocol::WorkerExited>()[0].exit_code == 0);
}

TEST_CASE("parts of a worker that has ended are ended") {
  GroupScene scene;
  scene.connect_both();
  scene.spawn();
  bool in_order = false;
  SUBCASE("in order") {
    in_order = true;
  }
  SUBCASE("with an error") {
    in_order = false;
  }
  scene.lead->say(protocol::WorkerExited{kReplica, in_order ? 0 : 1, 0, {"why"}});
  REQUIRE(scene.pump([&] { return !scene.mate->all<protocol::StopWorker>().empty(); }));
  CHECK(scene.mate->all<protocol::StopWorker>()[0].grace_ms == 60);
  CHECK(scene.all<protocol::WorkerExited>().empty());
  REQUIRE(scene.exits(scene.mate, {kReplica, 0, 15, {}}));
  CHECK(scene.all<protocol::WorkerExited>()[0].exit_code == (in_order ? 0 : 1));
  CHECK(scene.all<protocol::WorkerExited>()[0].signal == 0);
}

TEST_CASE("a part that fails ends its worker, which it explains") {
  GroupScene scene;
  scene.connect_both();
  scene.spawn();
  protocol::WorkerExited killed{kReplica, 0, 9, {"so"}};
  killed.out_of_memory = true;
  killed.peak_bytes = 5;
  scene.mate->say(killed);
  SUBCASE("the first process sees it") {
    REQUIRE(scene.exits(scene.lead, {kReplica, 1, 0, {"a part is gone"}}));
  }
  SUBCASE("the first process is ended") {
    REQUIRE(scene.pump([&] { return !scene.lead->all<protocol::StopWorker>().empty(); }));
    CHECK(scene.all<protocol::WorkerExited>().empty());
    REQUIRE(scene.exits(scene.lead, {kReplica, 0, 15, {}}));
  }
  const auto exited = scene.all<protocol::WorkerExited>()[0];
  CHECK(exited.signal == 9);
  CHECK(exited.out_of_memory);
  CHECK(exited.peak_bytes == 5);
  CHECK(exited.last_error_lines == std::vector<std::string>{"so", "(its process on host b)"});
}

TEST_CASE("a part that fails because its worker was killed does not hide that") {
  GroupScene scene;
  scene.connect_both();
  scene.spawn();
  scene.mate->say(protocol::WorkerExited{kReplica, 1, 0, {"the first process is gone"}});
  scene.settle(scene.mate);
  REQUIRE(scene.exits(scene.lead, {kReplica, 0, 11, {}}));
  CHECK(scene.all<protocol::WorkerExited>()[0].signal == 11);
}

TEST_CASE("a part that cannot be started is why its worker could not be") {
  GroupScene scene;
  scene.connect_both();
  scene.spawn();
  scene.mate->say(protocol::WorkerSpawnFailed{kReplica, "no such program", 127});
  REQUIRE(scene.pump([&] { return !scene.lead->all<protocol::StopWorker>().empty(); }));
  scene.lead->say(protocol::WorkerExited{kReplica, 0, 15, {}});
  REQUIRE(scene.pump([&] { return !scene.all<protocol::WorkerSpawnFailed>().empty(); }));
  CHECK(scene.all<protocol::WorkerSpawnFailed>()[0].reason == "its process on host b: no such program");
  CHECK(scene.all<protocol::WorkerSpawnFailed>()[0].exit_status == 127);
  CHECK(scene.all<protocol::WorkerExited>().empty());
}

TEST_CASE("a part with a session ends its worker") {
  GroupScene scene;
  scene.connect_both();
  scene.spawn();
  scene.mate->say(protocol::FromWorker{kReplica, protocol::WorkerNote{"key", "value"}});
  REQUIRE(scene.pump([&] { return !scene.lead->all<protocol::StopWorker>().empty(); }));
  REQUIRE(scene.pump([&] { return !scene.mate->all<protocol::StopWorker>().empty(); }));
  scene.mate->say(protocol::WorkerExited{kReplica, 0, 15, {}});
  REQUIRE(scene.exits(scene.lead, {kReplica, 0, 15, {}}));
  CHECK(scene.all<protocol::WorkerExited>()[0].exit_code == 70);
  CHECK(scene.all<protocol::FromWorker>().empty());
}

TEST_CASE("a report is passed on when each host has sent one, with all samples") {
  GroupScene scene;
  scene.connect_both();
  scene.spawn();
  const auto report = [&](std::uint64_t number) {
    scene.lead->say(protocol::AgentReport{number, {{kReplica, number, {}, 0, false}}});
  };
  report(1);
  report(2);
  scene.settle(scene.lead);
  CHECK(scene.all<protocol::AgentReport>().empty());
  scene.mate->say(protocol::AgentReport{9, {{kReplica, 0, {}, 0, true}}});
  REQUIRE(scene.pump([&] { return scene.all<protocol::AgentReport>().size() == 1; }));
  const auto first = scene.all<protocol::AgentReport>()[0];
  CHECK(first.sequence == 2);
  REQUIRE(first.workers.size() == 2);
  CHECK(first.workers[0].quiet_ms == 1);
  CHECK(first.workers[1].quiet_ms == 2);
  CHECK(first.workers[1].stopped);
  report(3);
  scene.mate->say(protocol::AgentReport{10, {}});
  REQUIRE(scene.pump([&] { return scene.all<protocol::AgentReport>().size() == 2; }));
  CHECK(scene.all<protocol::AgentReport>()[1].workers.size() == 1);
}

TEST_CASE("output and notices of a mate are its group's") {
  GroupScene scene;
  scene.connect_both();
  scene.mate->say(protocol::HostNotice{"maintenance"});
  scene.settle(scene.mate);
  CHECK(scene.all<protocol::HostNotice>().at(0).reason == "its host b: maintenance");
}

TEST_CASE("a host whose connection breaks cuts its group off, which comes back with all workers") {
  GroupScene scene;
  scene.connect_both();
  scene.spawn();
  SUBCASE("the mate's") {
    scene.mate->connection->close();
    REQUIRE(scene.pump([&] { return !scene.reasons.empty(); }));
    CHECK(scene.evidences[0] == LossEvidence::kConnection);
    CHECK(scene.reasons[0].starts_with("its host b: "));
    CHECK(scene.groups->connection_of(kLead) == nullptr);
    scene.lead->say(protocol::FromWorker{kReplica, protocol::WorkerNote{"key", "value"}});
    scene.settle(scene.lead);
    CHECK(scene.all<protocol::FromWorker>().empty());  // it waits
    scene.mate = scene.connect(kMate, {kReplica});
  }
  SUBCASE("the lead's") {
    scene.lead->connection->close();
    REQUIRE(scene.pump([&] { return !scene.reasons.empty(); }));
    CHECK(scene.reasons[0].starts_with("its host a: "));
    scene.lead = scene.connect(kLead, {kReplica});
    scene.lead->say(protocol::FromWorker{kReplica, protocol::WorkerNote{"key", "value"}});
  }
  REQUIRE(scene.pump([&] { return scene.hellos.size() == 2; }));
  CHECK(scene.hellos[1].workers == std::vector<WorkerId>{kReplica});
  REQUIRE(scene.pump([&] { return scene.all<protocol::FromWorker>().size() == 1; }));
  REQUIRE(scene.pump([&] { return scene.groups->connection_of(kLead) != nullptr; }));
  // Nothing of it was ended.
  scene.mate->say(protocol::WorkerExited{kReplica, 0, 0, {}});
  REQUIRE(scene.exits(scene.lead, {kReplica, 0, 0, {}}));
  CHECK(scene.lead->all<protocol::StopWorker>().empty());
  CHECK(scene.mate->all<protocol::StopWorker>().empty());
}

TEST_CASE("a part that is gone after a reconnect ends its worker") {
  GroupScene scene;
  scene.connect_both();
  scene.spawn();
  scene.mate->connection->close();
  REQUIRE(scene.pump([&] { return !scene.reasons.empty(); }));
  scene.mate = scene.connect(kMate);
  SUBCASE("its agent repeats how it ended") {
    scene.mate->say(protocol::WorkerExited{kReplica, 4, 0, {}});
    REQUIRE(scene.exits(scene.lead, {kReplica, 1, 0, {}}));
    CHECK(scene.all<protocol::WorkerExited>()[0].exit_code == 4);
  }
  SUBCASE("its agent does not know it") {
    REQUIRE(scene.pump([&] { return !scene.lead->all<protocol::StopWorker>().empty(); }));
    REQUIRE(scene.exits(scene.lead, {kReplica, 0, 15, {}}));
    CHECK(scene.all<protocol::WorkerExited>()[0].signal == 9);
  }
}

TEST_CASE("parts whose worker is gone after a reconnect are ended") {
  GroupScene scene;
  scene.connect_both();
  scene.spawn();
  scene.lead->connection->close();
  REQUIRE(scene.pump([&] { return !scene.reasons.empty(); }));
  scene.lead = scene.connect(kLead);
  REQUIRE(scene.pump([&] { return scene.hellos.size() == 2; }));
  CHECK(scene.hellos[1].workers.empty());
  REQUIRE(scene.pump([&] { return !scene.mate->all<protocol::StopWorker>().empty(); }));
}

TEST_CASE("a run that is taken over knows its workers by what its hosts have") {
  GroupScene scene(true);
  CHECK(scene.launcher.adopted == std::vector<std::string>{"a", "b"});
  SUBCASE("all") {
    scene.connect_both({kReplica}, {kReplica, WorkerId{8}});
    CHECK(scene.hellos[0].workers == std::vector<WorkerId>{kReplica});
    REQUIRE(scene.pump([&] { return !scene.mate->all<protocol::StopWorker>().empty(); }));
    CHECK(scene.mate->all<protocol::StopWorker>()[0].worker == WorkerId{8});
    scene.lead->say(protocol::WorkerExited{kReplica, 0, 0, {}});
    scene.settle(scene.lead);
    CHECK(scene.all<protocol::WorkerExited>().empty());
    REQUIRE(scene.exits(scene.mate, {kReplica, 0, 0, {}}));
  }
  SUBCASE("a part was never started") {
    scene.connect_both({kReplica}, {});
    REQUIRE(scene.pump([&] { return !scene.lead->all<protocol::StopWorker>().empty(); }));
    REQUIRE(scene.exits(scene.lead, {kReplica, 0, 15, {}}));
  }
}

TEST_CASE("a host that cannot be reached is its group's loss, and the others are told to end") {
  GroupScene scene;
  scene.lead = scene.connect(kLead);
  scene.settle(scene.lead);
  scene.groups->table().launch_ended({kMate, false, 255, 0, "b: no route to host", false, true});
  REQUIRE(scene.reasons.size() == 1);
  CHECK(scene.reasons[0] == "its host b: b: no route to host");
  CHECK(scene.evidences[0] == LossEvidence::kNotYet);
  CHECK(scene.groups->give_up(kLead) == std::vector<std::string>{"b"});
  REQUIRE(scene.pump([&] { return !scene.lead->all<protocol::StopAgent>().empty(); }));
  CHECK(scene.groups->is_stopping(kLead));
}

TEST_CASE("a group that is told to end is lost when the last of its hosts is") {
  GroupScene scene;
  scene.connect_both();
  scene.groups->stop(kLead, milliseconds(5000));
  REQUIRE(scene.pump([&] { return !scene.lead->all<protocol::StopAgent>().empty(); }));
  REQUIRE(scene.pump([&] { return !scene.mate->all<protocol::StopAgent>().empty(); }));
  scene.lead->connection->close();
  scene.settle(scene.mate);
  CHECK(scene.reasons.empty());
  scene.mate->connection->close();
  CHECK(scene.pump([&] { return scene.reasons.size() == 1; }));
}

TEST_CASE("a host that is silent is at fault where all are connected") {
  GroupScene scene;
  scene.connect_both();
  scene.lead->say(protocol::AgentReport{1, {}});
  scene.settle(scene.lead);
  CHECK(scene.groups->give_up(kLead) == std::vector<std::string>{"b"});
}

TEST_CASE("a host that is launched for another group ends its part in the older one") {
  GroupScene scene;
  scene.connect_both();
  scene.groups->launch(AgentId{2}, "a+c");
  REQUIRE(scene.pump([&] { return !scene.lead->all<protocol::StopAgent>().empty(); }));
  REQUIRE(scene.pump([&] { return !scene.mate->all<protocol::StopAgent>().empty(); }));
}

}  // namespace
}  // namespace elastictrain
