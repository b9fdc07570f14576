// A pool of agents, one for each rank of a real launch of each installed MPI.
#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <asio/io_context.hpp>
#include <map>

#include "fake_supervisor.h"
#include "launch_ends.h"
#include "launcher/agent/agent.h"
#include "launcher/batch/start_command.h"
#include "launcher/mpi/mpi_launchers.h"
#include "launcher/process/session_sweep.h"
#include "tests/skip.h"

using namespace elastictrain;
using namespace elastictrain::testing;
using launcher::LaunchEnded;

namespace {

constexpr std::uint32_t kRanks = 3;

struct OpenMpi {
  static constexpr const char* kCommand = "mpirun.openmpi";
};
struct Mpich {
  static constexpr const char* kCommand = "mpiexec.hydra";
};

struct Lab {
  Lab() : supervisor(io) {
    ::signal(SIGPIPE, SIG_IGN);
    ::setenv("XDG_RUNTIME_DIR", directory.path.c_str(), 1);
  }

  // Checks that every launch ends once and no agent is left.
  ~Lab() {
    for (std::uint32_t agent = 1; agent <= 2 * kRanks; ++agent) {
      if (pool) pool->forget(AgentId{agent});
    }
    CHECK(supervisor.pump([&] { return ends.size() >= expected; }));
    CHECK(ends.size() == expected);
    for (std::size_t i = 0; i < supervisor.agents.size(); ++i) {
      if (!supervisor.agents[i]->closed) supervisor.send(i, StopAgent{100});
    }
    for (const auto& [id, index] : agents()) {
      const pid_t pid = pid_of(id);
      CHECK(supervisor.pump([&] { return !is_running(pid); }));
    }
  }

  bool use(const std::string& command, const std::string& program = TEST_AGENT) {
    if (!launcher::is_in_path(command)) {
      tests::skip_aloud("there is no " + command + " here");
      return false;
    }
    auto tool = launcher::ask_mpi_tool({command});
    REQUIRE(tool.ok());
    std::uint32_t slots = kRanks;
    std::vector<launcher::Host> machines;
    for (const auto& [machine, answer] : other_machines) machines.push_back({machine, 1});
    slots -= static_cast<std::uint32_t>(machines.size());
    machines.insert(machines.begin(), {"localhost", slots});
    pool = launcher::make_mpi_pool(io,
                                   {*tool,
                                    {::geteuid() == 0, true},
                                    machines,
                                    launcher::pool_ranks(machines),
                                    directory.path + "/state",
                                    start_timeout_ms,
                                    [this](const std::string& machine) {
                                      const auto other = other_machines.find(machine);
                                      return other == other_machines.end() ? std::vector<std::string>{} : other->second;
                                    }},
                                   [this](LaunchEnded end) { ends.push_back(std::move(end)); }, {program, "test"});
    return true;
  }

  void launch(std::uint32_t agent, std::uint32_t rank) {
    ++expected;
    auto bootstrap = supervisor.bootstrap(AgentId{agent});
    bootstrap.host = "mpi" + std::to_string(rank);
    if (!other_machines.empty()) {
      bootstrap.host += "@" + (rank + other_machines.size() < kRanks
                                   ? "localhost"
                                   : std::next(other_machines.begin(), rank + other_machines.size() - kRanks)->first);
    }
    pool->launch({AgentId{agent}, bootstrap.host, bootstrap});
  }

  // Agent 1 is rank 0, and so on.
  void launch_all(std::uint32_t first = 1) {
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) launch(first + rank, rank);
  }

  bool start() {
    launch_all();
    return supervisor.pump([&] { return agents().size() == kRanks; }) &&
           supervisor.pump([&] { return std::filesystem::is_empty(directory.path + "/state"); });
  }

  // The connections of all agents that have identified themselves.
  std::map<AgentId, std::size_t> agents() const {
    std::map<AgentId, std::size_t> found;
    for (std::size_t i = 0; i < supervisor.agents.size(); ++i) {
      for (const auto& hello : supervisor.all<AgentHello>(i)) found[hello.agent] = i;
    }
    return found;
  }

  pid_t pid_of(AgentId agent) const {
    return static_cast<pid_t>(supervisor.all<AgentHello>(agents().at(agent)).at(0).pid);
  }

  LaunchEnded await_end(std::uint32_t agent) { return await_launch_end(supervisor, ends, AgentId{agent}); }

  TemporaryDirectory directory;
  asio::io_context io;
  FakeSupervisor supervisor;
  std::unique_ptr<launcher::Launcher> pool;
  std::vector<LaunchEnded> ends;
  std::size_t expected = 0;
  std::uint64_t start_timeout_ms = 30'000;
  std::map<std::string, std::vector<std::string>> other_machines;  // with one slot, and the question to each
};

}  // namespace

TEST_CASE_TEMPLATE("a pool starts when all of its ranks are asked for, and each agent is at its own rank", Mpi, OpenMpi,
                   Mpich) {
  Lab lab;
  if (!lab.use(Mpi::kCommand)) return;
  REQUIRE(lab.start());
  for (const auto& [agent, index] : lab.agents()) {
    lab.supervisor.send(
        index,
        SpawnWorker{WorkerId{1}, 0, {"sh", "-c", "echo rank=$OMPI_COMM_WORLD_RANK$PMI_RANK=; sleep 1000"}, {}, ""});
    CHECK(lab.supervisor.await_line(index, WorkerId{1}, "rank=" + std::to_string(agent.value - 1) + "="));
  }
  CHECK(lab.ends.empty());
}

TEST_CASE_TEMPLATE("a pool whose agents end in peace has ended", Mpi, OpenMpi, Mpich) {
  Lab lab;
  if (!lab.use(Mpi::kCommand)) return;
  REQUIRE(lab.start());
  for (const auto& [agent, index] : lab.agents()) lab.supervisor.send(index, StopAgent{100});
  for (std::uint32_t agent = 1; agent <= kRanks; ++agent) {
    const auto end = lab.await_end(agent);
    CHECK(end.launched);
    CHECK(end.agent_ended);
    CHECK(end.exit_code == 0);
  }
}

TEST_CASE_TEMPLATE("the run's key is in no command line and no environment of a pool", Mpi, OpenMpi, Mpich) {
  Lab lab;
  if (!lab.use(Mpi::kCommand)) return;
  REQUIRE(lab.start());
  const auto& key = lab.supervisor.key();
  const std::string raw(key.begin(), key.begin() + 8);
  const auto ours = launcher::descendants(::getpid());
  CHECK(ours.size() > kRanks);
  for (const pid_t pid : ours) {
    for (const char* name : {"cmdline", "environ"}) {
      std::ifstream file("/proc/" + std::to_string(pid) + "/" + name, std::ios::binary);
      const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
      CHECK_FALSE(contains(text, raw));
    }
  }
}

TEST_CASE_TEMPLATE("an agent that is no longer needed may end while the others continue", Mpi, OpenMpi, Mpich) {
  Lab lab;
  if (!lab.use(Mpi::kCommand)) return;
  REQUIRE(lab.start());
  const auto agents = lab.agents();
  const pid_t gone = lab.pid_of(AgentId{2});
  lab.supervisor.send(agents.at(AgentId{2}), StopAgent{100});
  REQUIRE(lab.supervisor.pump([&] { return !is_running(gone); }));
  lab.pool->forget(AgentId{2});
  CHECK(lab.await_end(2).launched);
  for (const std::uint32_t other : {1u, 3u}) {
    const std::size_t index = agents.at(AgentId{other});
    lab.supervisor.send(index, SpawnWorker{WorkerId{1}, 0, {"sh", "-c", "echo up; sleep 1000"}, {}, ""});
    CHECK(lab.supervisor.await_line(index, WorkerId{1}, "up"));
  }
  CHECK(lab.ends.size() == 1);
}

TEST_CASE("a rank that was lost alone is refused while the others continue") {
  Lab lab;
  if (!lab.use(OpenMpi::kCommand)) return;
  REQUIRE(lab.start());
  const pid_t lost = lab.pid_of(AgentId{2});
  REQUIRE(::kill(lost, SIGKILL) == 0);
  REQUIRE(lab.supervisor.pump([&] { return !is_running(lost); }));
  lab.launch(4, 1);
  const auto end = lab.await_end(4);
  CHECK_FALSE(end.launched);
  CHECK(contains(end.message, "mpi1: its MPI rank exited, and MPI accepts no new process"));
  CHECK(is_running(lab.pid_of(AgentId{1})));
  CHECK(is_running(lab.pid_of(AgentId{3})));
}

TEST_CASE_TEMPLATE("a pool that was lost as a whole may be started anew", Mpi, OpenMpi, Mpich) {
  Lab lab;
  if (!lab.use(Mpi::kCommand)) return;
  REQUIRE(lab.start());
  for (std::uint32_t agent = 1; agent <= kRanks; ++agent) ::kill(lab.pid_of(AgentId{agent}), SIGKILL);
  lab.launch_all(1 + kRanks);
  CHECK(lab.supervisor.pump([&] { return lab.agents().size() == 2 * kRanks; }));
  for (std::uint32_t agent = 1; agent <= kRanks; ++agent) CHECK(lab.await_end(agent).launched);
}

TEST_CASE_TEMPLATE("a pool starts without unused ranks, and each agent gets its own bootstrap", Mpi, OpenMpi, Mpich) {
  Lab lab;
  if (!lab.use(Mpi::kCommand)) return;
  lab.launch(1, 0);
  lab.launch(3, 2);
  REQUIRE(lab.supervisor.pump([&] { return lab.agents().size() == 2; }));
  CHECK(lab.agents().contains(AgentId{3}));
  CHECK(lab.ends.empty());
}

TEST_CASE_TEMPLATE("a machine that does not answer is named, and the pool starts without it", Mpi, OpenMpi, Mpich) {
  Lab lab;
  lab.other_machines["far"] = {"sh", "-c", "echo no route to far >&2; exit 255"};
  if (!lab.use(Mpi::kCommand)) return;
  lab.launch_all();
  const auto end = lab.await_end(kRanks);
  CHECK_FALSE(end.launched);
  CHECK(end.message == "mpi2@far: far does not answer: no route to far");
  CHECK(lab.supervisor.pump([&] { return lab.agents().size() == kRanks - 1; }));
  CHECK(lab.ends.size() == 1);
}

TEST_CASE_TEMPLATE("a question that is not answered ends with its time", Mpi, OpenMpi, Mpich) {
  Lab lab;
  lab.start_timeout_ms = 300;
  lab.other_machines["a"] = lab.other_machines["b"] = lab.other_machines["c"] = {"sleep", "1000"};
  if (!lab.use(Mpi::kCommand)) return;
  lab.launch_all();
  CHECK(lab.await_end(1).message == "mpi0@a: a does not answer: no answer arrived in time");
  CHECK_FALSE(lab.await_end(3).launched);
}

TEST_CASE("a pool that lost a rank, and then the others, starts again with the requested ranks") {
  Lab lab;
  if (!lab.use(OpenMpi::kCommand)) return;
  REQUIRE(lab.start());
  for (std::uint32_t agent = 1; agent <= kRanks; ++agent) ::kill(lab.pid_of(AgentId{agent}), SIGKILL);
  lab.pool->forget(AgentId{2});
  lab.launch(4, 0);
  lab.launch(5, 2);
  CHECK(lab.supervisor.pump([&] { return lab.agents().size() == kRanks + 2; }));
}

TEST_CASE("while agents of another supervisor run, no others are started") {
  Lab lab;
  if (!lab.use(OpenMpi::kCommand)) return;
  lab.pool->adopt("mpi1");
  lab.launch(1, 0);
  CHECK(contains(lab.await_end(1).message, "MPI accepts no new process"));
  lab.launch(2, 0);
  lab.launch(3, 1);
  CHECK(lab.supervisor.pump([&] { return lab.agents().size() == 2; }));
}

TEST_CASE_TEMPLATE("a pool that loses one of its ranks before it is up ends as a whole", Mpi, OpenMpi, Mpich) {
  Lab lab;
  if (!lab.use(Mpi::kCommand)) return;
  lab.launch_all();
  REQUIRE(lab.supervisor.pump([&] { return std::filesystem::exists(lab.directory.path + "/state"); }));
  lab.pool->forget(AgentId{1});
  for (std::uint32_t agent = 1; agent <= kRanks; ++agent) {
    const auto end = lab.await_end(agent);
    CHECK(contains(end.message, agent == 1 ? "mpi0: stopped on request" : "see mpi0's error"));
  }
  CHECK(std::filesystem::is_empty(lab.directory.path + "/state"));
}

// Open MPI 4.1 prints nothing and waits forever if it must not end on the loss of a rank.
TEST_CASE_TEMPLATE("a pool whose program is missing fails, with one report", Mpi, OpenMpi, Mpich) {
  Lab lab;
  lab.start_timeout_ms = 2'000;
  if (!lab.use(Mpi::kCommand, "/nonexistent/elastictrain")) return;
  lab.launch_all();
  const auto end = lab.await_end(1);
  CHECK_FALSE(end.launched);
  CHECK(contains(end.message, Mpi::kCommand));
  CHECK(contains(end.message, "/nonexistent/elastictrain"));
  CHECK(contains(lab.await_end(2).message, "the MPI launch failed; see mpi0's error"));
}

TEST_CASE_TEMPLATE("a launch cancelled before it began is reported", Mpi, OpenMpi, Mpich) {
  Lab lab;
  if (!lab.use(Mpi::kCommand)) return;
  lab.launch(1, 0);
  lab.pool->forget(AgentId{1});
  CHECK(contains(lab.await_end(1).message, "before it was started"));
}
