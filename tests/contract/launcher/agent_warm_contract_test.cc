// Processes that an agent keeps when their worker has left: how long, and what ends them.
#include <doctest/doctest.h>
#include <signal.h>

#include "agent_lab.h"
#include "supervisor/protocol/limits.h"

using namespace elastictrain;
using namespace elastictrain::testing;

namespace {

constexpr WorkerId kNext{4};
constexpr const char* kPatientWorker =
    "trap 'exit 0' TERM; echo $ELASTICTRAIN_SOCKET; echo parks=$ELASTICTRAIN_PARKS; while :; do sleep 0.05; done";

// The test is the worker's library: it says what a worker says.
struct Warm {
  explicit Warm(std::uint64_t keep_ms = 600'000, std::uint64_t percent = 100)
      : lab([&](AgentBootstrap& bootstrap) {
          bootstrap.keep_warm_ms = keep_ms;
          bootstrap.keep_warm_percent = percent;
          bootstrap.grace_ms = 400;
        }) {}

  WorkerSide begin(const std::string& script = kPatientWorker) { return begin_worker(lab, script); }

  void leave(WorkerSide& worker) {
    lab.supervisor.send(0, KeepWarm{kWorker});
    // Orders and workers have different connections: what the next order does shows that this one has arrived.
    lab.spawn("echo passed", WorkerId{99});
    REQUIRE(lab.supervisor.await_line(0, WorkerId{99}, "passed"));
    worker.say(WorkerParked{5});
    CHECK(lab.await_exit().exit_code == 0);
    REQUIRE(lab.supervisor.await<WarmProcesses>(0));
  }

  std::vector<WarmProcess> list(std::size_t agent = 0) {
    const auto all = lab.supervisor.all<WarmProcesses>(agent);
    return all.empty() ? std::vector<WarmProcess>() : all.back().processes;
  }

  bool ends() {
    return lab.supervisor.pump([&] { return list().empty() && !is_running(pid()); });
  }

  pid_t pid() const { return static_cast<pid_t>(lab.supervisor.all<WorkerSpawned>(0).at(0).pid); }

  Lab lab;
};

}  // namespace

TEST_CASE("a worker that is to stay warm is over, and its process the next worker of its slot") {
  Warm warm;
  WorkerSide worker = warm.begin();
  REQUIRE(warm.lab.supervisor.await_line(0, kWorker, "parks=1"));
  warm.leave(worker);
  CHECK(warm.list() == std::vector<WarmProcess>{{kWorker, 0, warm.pid(), false}});
  SpawnWorker order{kNext, 0, {"sh", "-c", "echo never started"}, {}, "/"};
  order.warm = true;
  warm.lab.supervisor.send(0, order);
  REQUIRE(warm.lab.supervisor.pump([&] { return warm.lab.supervisor.all<WorkerSpawned>(0).back().worker == kNext; }));
  CHECK(warm.lab.supervisor.all<WorkerSpawned>(0).back().pid == warm.pid());
  CHECK(warm.list().empty());
  warm.lab.supervisor.send(0, StopWorker{kNext, 2'000});
  CHECK(warm.lab.await_exit(kNext).signal == 0);
}

TEST_CASE("a worker that parks without that order is dismissed, and its own exit is reported") {
  Warm warm;
  WorkerSide worker =
      warm.begin("trap 'echo ends; exit 7' TERM; echo $ELASTICTRAIN_SOCKET; while :; do sleep 0.05; done");
  worker.say(WorkerParked{5});
  CHECK_FALSE(warm.lab.supervisor.pump([&] { return !warm.lab.supervisor.all<WorkerExited>(0).empty(); },
                                       std::chrono::milliseconds(100)));
  warm.lab.supervisor.send(0, StopWorker{kWorker, 2'000});
  CHECK(warm.lab.await_exit().exit_code == 7);
  CHECK(warm.lab.supervisor.all<WarmProcesses>(0).empty());
}

TEST_CASE("a warm process ends after its time, when all hold too much memory, and when it is told to") {
  Warm brief(200);
  WorkerSide first = brief.begin();
  brief.leave(first);
  CHECK(brief.ends());

  Warm small(600'000, 0);
  WorkerSide second = small.begin();
  small.leave(second);
  CHECK(small.ends());

  Warm told;
  WorkerSide third = told.begin();
  told.leave(third);
  told.lab.supervisor.send(0, EndWarm{kWorker});
  CHECK(told.ends());
}

TEST_CASE("a cold start in the slot of a warm process, and the end of the agent, end it") {
  Warm warm;
  WorkerSide worker = warm.begin();
  warm.leave(worker);
  warm.lab.spawn("echo started", kNext);
  CHECK(warm.lab.supervisor.await_line(0, kNext, "started"));
  CHECK(warm.ends());

  Warm last;
  WorkerSide other = last.begin();
  last.leave(other);
  last.lab.supervisor.send(0, StopAgent{1'000});
  REQUIRE(last.lab.await_end());
  CHECK_FALSE(is_running(last.pid()));
}

TEST_CASE("a supervisor that connects hears of warm processes, and one that dies by itself is gone") {
  Warm warm;
  WorkerSide worker = warm.begin();
  warm.leave(worker);
  warm.lab.break_connection();
  const std::vector<WarmProcess> expected{{kWorker, 0, warm.pid(), false}};
  CHECK(warm.lab.supervisor.all<AgentHello>(1).at(0).warm == expected);
  REQUIRE(::kill(warm.pid(), SIGKILL) == 0);
  REQUIRE(warm.lab.supervisor.await<WarmProcesses>(1));
  CHECK(warm.list(1).empty());
}
