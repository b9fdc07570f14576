// An agent that is a rank of an MPI pool: one process, which becomes one worker after another and never starts a
// second.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/stat.h>

#include <asio/buffer.hpp>
#include <asio/error_code.hpp>

#include "agent_lab.h"
#include "supervisor/protocol/agent_messages.h"
#include "supervisor/protocol/codec.h"
#include "supervisor/protocol/limits.h"

using namespace elastictrain;
using namespace elastictrain::testing;

namespace {

constexpr WorkerId kNext{4};
constexpr const char* kPatientWorker =
    "trap 'echo poked' USR1; trap 'exit 0' TERM; echo $ELASTICTRAIN_SOCKET; while :; do sleep 0.05; done";

// The shell replaces a launch that has placed the agent at rank 1, second on its machine.
std::vector<std::string> pool_agent(const std::string& file) {
  return {"sh", "-c",
          "exec 9</dev/zero; export PMI_FD=9 PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2; "
          "exec \"$0\" agent --mpi-pool \"$1\"",
          TEST_AGENT, file};
}

void write_pool_file(const std::string& path, const AgentBootstrap& bootstrap) {
  AgentBootstrap other = bootstrap;
  other.agent = AgentId{7};
  std::ofstream(path, std::ios::binary) << encode_frame(Bootstrap(other)) << encode_frame(Bootstrap(bootstrap));
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
}

struct Place {
  // The agent does not read its standard input.
  Place() { ::signal(SIGPIPE, SIG_IGN); }
  TemporaryDirectory files;
  std::string file = files.path + "/ranks";
};

// A worker that has sent hello. The test sends its messages.
struct Pool : Place {
  Pool() : lab([this](AgentBootstrap& bootstrap) { write_pool_file(file, bootstrap); }, pool_agent(file)) {}

  WorkerSide begin(const std::string& script = kPatientWorker) { return begin_worker(lab, script); }

  void park(WorkerSide& worker, WorkerId id = kWorker) {
    worker.say(WorkerParked{5});
    const auto exited = lab.await_exit(id);
    CHECK(exited.exit_code == 0);
    CHECK(exited.signal == 0);
  }

  // The next message of the agent to this worker.
  WorkerDown hear(WorkerSide& worker) {
    std::optional<WorkerDown> received;
    FrameReader reader(limits::kMaxWorkerFrameBytes);
    CHECK(lab.supervisor.pump([&] {
      char block[4096];
      asio::error_code none_yet;
      worker.socket.non_blocking(true);
      const std::size_t count = worker.socket.read_some(asio::buffer(block), none_yet);
      REQUIRE(reader.feed({block, count}).ok());
      if (const auto body = reader.next()) received = *decode_body<WorkerDown>(*body);
      return received.has_value();
    }));
    return received.value_or(WorkerDown(Cancel{}));
  }

  pid_t pid(std::size_t spawned = 0) const {
    return static_cast<pid_t>(lab.supervisor.all<WorkerSpawned>(0).at(spawned).pid);
  }

  bool is_noticed() {
    return lab.supervisor.await<HostNotice>(0) &&
           contains(lab.supervisor.all<HostNotice>(0)[0].reason, "MPI accepts no new process");
  }

  Lab lab;
};

}  // namespace

TEST_CASE("a rank finds its frame, and its worker what MPI_Init needs") {
  Pool pool;
  CHECK(pool.lab.supervisor.all<AgentHello>(0).at(0).agent == AgentId{1});
  pool.lab.spawn(
      "echo rank=$PMI_RANK slot=$ELASTICTRAIN_SLOT/$ELASTICTRAIN_SLOTS local=$LOCAL_RANK; readlink /proc/self/fd/9");
  pool.lab.await_exit();
  CHECK(pool.lab.supervisor.lines(0, kWorker) == std::vector<std::string>{"rank=1 slot=1/2 local=1", "/dev/zero"});
}

TEST_CASE("a rank is lost with its launch until its worker has joined MPI, and outlives it from then on") {
  Pool early;
  early.begin();
  const auto agent_of = [](const Pool& pool) {
    return static_cast<pid_t>(pool.lab.supervisor.all<AgentHello>(0).at(0).pid);
  };
  CHECK(agent_of(early) != early.lab.command->pid());
  ::kill(early.lab.command->pid(), SIGKILL);
  CHECK(early.lab.supervisor.pump([&] { return !is_running(agent_of(early)); }));

  Pool pool;
  WorkerSide worker = pool.begin();
  worker.say(WorkerReady{});
  REQUIRE(pool.lab.supervisor.await<FromWorker>(0, 2));
  ::kill(pool.lab.command->pid(), SIGKILL);
  REQUIRE(pool.lab.await_end());
  pool.lab.supervisor.send(0, SignalWorker{kWorker, SIGUSR1});
  CHECK(pool.lab.supervisor.await_line(0, kWorker, "poked"));
  pool.lab.supervisor.send(0, StopAgent{100});
  CHECK(pool.lab.supervisor.pump([&] { return !is_running(agent_of(pool)); }));
}

TEST_CASE("workers of a pool's agents on one machine share memory") {
  std::vector<std::string> keys;
  for (int i = 0; i < 2; ++i) {
    Pool pool;
    pool.lab.spawn("echo key=$ELASTICTRAIN_HOST_KEY");
    pool.lab.await_exit();
    keys.push_back(pool.lab.supervisor.lines(0, kWorker).at(0));
  }
  CHECK(keys[0].size() > 40);
  CHECK(keys[0] == keys[1]);
}

TEST_CASE("outside of a pool nothing of an MPI launch reaches a worker") {
  Lab lab([](AgentBootstrap&) {},
          {"sh", "-c", "export PMI_RANK=0 OMPI_COMM_WORLD_RANK=0; exec \"$0\" agent", TEST_AGENT});
  lab.spawn("echo rank=$PMI_RANK$OMPI_COMM_WORLD_RANK");
  CHECK(lab.supervisor.await_line(0, kWorker, "rank="));
  CHECK(lab.supervisor.lines(0, kWorker) == std::vector<std::string>{"rank="});
}

TEST_CASE("a rank that is a worker refuses to be a second one, and the first goes on") {
  Pool pool;
  WorkerSide worker = pool.begin();
  pool.lab.spawn("echo second", kNext);
  REQUIRE(pool.lab.supervisor.await<WorkerSpawnFailed>(0));
  const auto refused = pool.lab.supervisor.all<WorkerSpawnFailed>(0).front();
  CHECK(refused.worker == kNext);
  CHECK(contains(refused.reason, "this MPI rank is worker w3 already"));
  pool.lab.supervisor.send(0, SignalWorker{kWorker, SIGUSR1});
  CHECK(pool.lab.supervisor.await_line(0, kWorker, "poked"));
  pool.park(worker);
}

TEST_CASE("a worker that parks is over, and its process is the next worker of its slot") {
  Pool pool;
  WorkerSide worker = pool.begin();
  pool.park(worker);
  pool.lab.spawn("echo never started", kNext);
  REQUIRE(pool.lab.supervisor.await<WorkerSpawned>(0, 2));
  CHECK(pool.lab.supervisor.all<WorkerSpawned>(0)[1].worker == kNext);
  CHECK(pool.pid(1) == pool.pid(0));
  const auto order = pool.hear(worker);
  REQUIRE(std::holds_alternative<Reassigned>(order));
  CHECK(std::get<Reassigned>(order).worker == kNext);
  worker.say(WorkerHello{limits::kProtocolVersion, kNext, 1, "test"});
  REQUIRE(pool.lab.supervisor.pump([&] { return pool.lab.supervisor.all<FromWorker>(0).back().worker == kNext; }));
  pool.lab.supervisor.send(0, SignalWorker{kNext, SIGUSR1});
  CHECK(pool.lab.supervisor.await_line(0, kNext, "poked"));
  CHECK(pool.lab.supervisor.lines(0, kNext) == std::vector<std::string>{"poked"});
  pool.park(worker, kNext);
  CHECK(is_running(pool.pid()));
}

TEST_CASE("a reassigned worker may not use its old id") {
  Pool pool;
  WorkerSide worker = pool.begin();
  pool.park(worker);
  pool.lab.spawn("", kNext);
  REQUIRE(pool.lab.supervisor.await<WorkerSpawned>(0, 2));
  worker.say(WorkerHello{limits::kProtocolVersion, kWorker, 1, "test"});
  CHECK(pool.lab.supervisor.await_line(0, kNext, "introduced itself as w3", true));
}

TEST_CASE("a stop that was under way when a worker parked does not kill the process") {
  Pool pool;
  WorkerSide worker = pool.begin("trap 'echo asked' TERM; echo $ELASTICTRAIN_SOCKET; while :; do sleep 0.05; done");
  pool.lab.supervisor.send(0, StopWorker{kWorker, 400});
  REQUIRE(pool.lab.supervisor.await_line(0, kWorker, "asked"));
  pool.park(worker);
  CHECK_FALSE(pool.lab.supervisor.pump([&] { return !is_running(pool.pid()); }, std::chrono::milliseconds(800)));
}

TEST_CASE("a worker whose process ends takes its rank with it, and the supervisor hears that before the end") {
  Pool pool;
  const WorkerSide worker = pool.begin();
  pool.lab.supervisor.send(0, SignalWorker{kWorker, SIGKILL});
  CHECK(pool.lab.await_exit().signal == SIGKILL);
  REQUIRE(pool.is_noticed());
  const auto& messages = pool.lab.supervisor.agents[0]->messages;
  const auto first = [&](auto wanted) {
    return std::find_if(messages.begin(), messages.end(), wanted) - messages.begin();
  };
  CHECK(first([](const AgentUp& m) { return std::holds_alternative<HostNotice>(m); }) <
        first([](const AgentUp& m) { return std::holds_alternative<WorkerExited>(m); }));
  pool.lab.spawn("echo never started", kNext);
  REQUIRE(pool.lab.supervisor.await<WorkerSpawnFailed>(0));
  CHECK(contains(pool.lab.supervisor.all<WorkerSpawnFailed>(0)[0].reason, "its MPI rank is used up"));
}

TEST_CASE("a worker that has finished is no reason for a notice") {
  Pool pool;
  WorkerSide worker = pool.begin();
  worker.say(WorkerFinished{9});
  REQUIRE(pool.lab.supervisor.await<FromWorker>(0, 2));
  pool.lab.supervisor.send(0, SignalWorker{kWorker, SIGTERM});
  CHECK(pool.lab.await_exit().exit_code == 0);
  CHECK(pool.lab.supervisor.all<HostNotice>(0).empty());
}

TEST_CASE("the end of a parked process is reported") {
  Pool pool;
  WorkerSide worker = pool.begin();
  pool.park(worker);
  REQUIRE(::kill(pool.pid(), SIGKILL) == 0);
  CHECK(pool.is_noticed());
}

TEST_CASE("with its agent a parked process is dismissed, and ended where it does not go") {
  Pool pool;
  WorkerSide worker = pool.begin("trap '' TERM; echo $ELASTICTRAIN_SOCKET; while :; do sleep 0.05; done");
  pool.park(worker);
  pool.lab.supervisor.send(0, StopAgent{300});
  CHECK(std::holds_alternative<Dismiss>(pool.hear(worker)));
  REQUIRE(pool.lab.await_end());
  CHECK(pool.lab.end->status.exit_code == 0);
  CHECK_FALSE(is_running(pool.pid()));
}

TEST_CASE("a worker that parks while the agent leaves is dismissed at once") {
  Pool pool;
  WorkerSide worker = pool.begin("trap 'echo asked' TERM; echo $ELASTICTRAIN_SOCKET; while :; do sleep 0.05; done");
  pool.lab.supervisor.send(0, StopAgent{60'000});
  REQUIRE(pool.lab.supervisor.await_line(0, kWorker, "asked"));
  pool.park(worker);
  CHECK(std::holds_alternative<Dismiss>(pool.hear(worker)));
  CHECK(pool.lab.await_end());
}

TEST_CASE("a supervisor that was away hears of a reassigned worker only what is its own") {
  Pool pool;
  WorkerSide worker = pool.begin();
  pool.park(worker);
  pool.lab.spawn("", kNext);
  REQUIRE(pool.lab.supervisor.await<WorkerSpawned>(0, 2));
  pool.lab.break_connection();
  const auto hello = pool.lab.supervisor.all<AgentHello>(1).at(0);
  CHECK(hello.workers == std::vector<WorkerId>{kNext});
  REQUIRE(pool.lab.supervisor.await<WorkerExited>(1));
  CHECK(pool.lab.supervisor.all<WorkerExited>(1)[0].worker == kWorker);
  CHECK(pool.lab.supervisor.all<FromWorker>(1).size() == 1);
}
