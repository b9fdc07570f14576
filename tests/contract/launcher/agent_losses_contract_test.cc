// An agent's reaction to losses: of its supervisor, its host, its workers, its descriptors. Real agents and workers;
// the test is the supervisor.
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/write.hpp>
#include <cstdlib>

#include "agent_lab.h"
#include "launcher/process/process_identity.h"
#include "supervisor/protocol/agent_messages.h"
#include "supervisor/protocol/codec.h"
#include "supervisor/protocol/limits.h"

using namespace elastictrain;
using namespace elastictrain::testing;

namespace {

constexpr WorkerId kOther{4};
// Ends on request.
constexpr const char* kPatient = "echo pid=$$ sock=$ELASTICTRAIN_SOCKET; while :; do sleep 0.05; done";

std::string socket_of(Lab& lab, WorkerId worker, std::size_t agent = 0) {
  REQUIRE(lab.supervisor.await_line(agent, worker, "sock="));
  const auto line = lab.supervisor.lines(agent, worker).front();
  return line.substr(line.find("sock=") + 5);
}

WorkerHello hello_of(WorkerId worker) {
  return {limits::kProtocolVersion, worker, 1, "v"};
}

template <class T>
std::vector<T> answer(const Lab& lab, std::size_t agent) {
  std::vector<T> found;
  for (const auto& one : lab.supervisor.all<FromWorker>(agent)) {
    if (const auto* message = std::get_if<T>(&one.message)) found.push_back(*message);
  }
  return found;
}

bool await_orphaned(Lab& lab, WorkerSide& worker) {
  protocol::FrameReader reader(1 << 20);
  char block[256];
  return lab.supervisor.pump([&] {
    while (worker.socket.available() > 0) {
      REQUIRE(reader.feed({block, worker.socket.read_some(asio::buffer(block))}).ok());
    }
    const auto body = reader.next();
    if (!body) return false;
    const auto message = decode_body<WorkerDown>(*body);
    return message.ok() && std::holds_alternative<Orphaned>(*message);
  });
}

}  // namespace

// --- The connection

TEST_CASE("after a broken connection the agent lists its live workers and repeats their last reports") {
  Lab lab;
  lab.spawn(kPatient);
  WorkerSide worker(lab.io, socket_of(lab, kWorker));
  worker.say(hello_of(kWorker));
  worker.say(WorkerActive{2, 30});
  WorkerHalted halted;
  halted.fence = 3;
  halted.committed_step = 41;
  worker.say(halted);
  REQUIRE(lab.supervisor.await<FromWorker>(0, 3));
  lab.break_connection();
  CHECK(lab.supervisor.all<AgentHello>(1)[0].workers == std::vector<WorkerId>{kWorker});
  REQUIRE(lab.supervisor.await<FromWorker>(1, 3));
  CHECK(answer<WorkerHello>(lab, 1).size() == 1);
  CHECK(answer<WorkerActive>(lab, 1).at(0).first_step == 30);
  CHECK(answer<WorkerHalted>(lab, 1).at(0).committed_step == 41);
}

TEST_CASE("what a worker did and wrote before it ended in the supervisor's absence comes whole, its exit last") {
  Lab lab;
  lab.spawn("echo pid=$$ sock=$ELASTICTRAIN_SOCKET; while [ ! -e /tmp/nonexistent-$$ ]; do sleep 0.05; done");
  const auto path = socket_of(lab, kWorker);
  const pid_t pid = lab.pid_of(lab.supervisor.lines(0, kWorker).front());
  lab.spawn("echo up; while kill -0 " + std::to_string(pid) + "; do sleep 0.05; done; echo out; echo last >&2; exit 9",
            kOther);
  REQUIRE(lab.supervisor.await_line(0, kOther, "up"));
  WorkerSide worker(lab.io, path);
  worker.say(hello_of(kWorker));
  REQUIRE(lab.supervisor.await<FromWorker>(0));
  lab.supervisor.stop_listening();
  lab.supervisor.agents[0]->connection->close();
  lab.supervisor.agents[0]->closed = true;
  // The test cannot observe when the agent has noticed.
  lab.supervisor.pump([] { return false; }, std::chrono::milliseconds(200));
  worker.say(WorkerAudit{std::vector<AuditStep>(1), 1});
  worker.say(WorkerFinished{77});
  worker.socket.close();
  ::kill(pid, SIGKILL);
  lab.supervisor.pump([] { return false; }, std::chrono::milliseconds(600));
  lab.supervisor.open(lab.supervisor.port());
  REQUIRE(lab.supervisor.await<AgentHello>(1));
  CHECK(lab.await_exit(kWorker, 1).signal == SIGKILL);
  CHECK(lab.await_exit(kOther, 1).exit_code == 9);
  CHECK(lab.supervisor.all<AgentHello>(1)[0].workers.empty());
  CHECK(answer<WorkerAudit>(lab, 1).size() == 1);
  CHECK(answer<WorkerFinished>(lab, 1).at(0).last_step == 77);
  CHECK(lab.supervisor.lines(1, kOther) == std::vector<std::string>{"out"});
  CHECK(lab.await_exit(kOther, 1).last_error_lines.back() == "last");
  const auto& messages = lab.supervisor.agents[1]->messages;
  const auto* last = std::get_if<FromWorker>(&messages[1]);
  REQUIRE(last != nullptr);

  // Exits are reported at every reconnect: a supervisor may be killed before it has stored them.
  lab.break_connection();
  CHECK(lab.await_exit(kOther, 2).exit_code == 9);
  CHECK(lab.supervisor.lines(2, kOther).empty());
}

TEST_CASE("audit batches come again unless the supervisor has acknowledged a report that followed them") {
  Lab lab;
  lab.spawn(kPatient);
  WorkerSide worker(lab.io, socket_of(lab, kWorker));
  worker.say(hello_of(kWorker));
  worker.say(WorkerAudit{std::vector<AuditStep>(2), 1});
  REQUIRE(lab.supervisor.await<FromWorker>(0, 2));
  // Two more reports: the first may have been in transit, and its acknowledgement must reach the agent.
  REQUIRE(lab.supervisor.await<AgentReport>(0, lab.supervisor.all<AgentReport>(0).size() + 4));
  lab.supervisor.acknowledges = false;
  worker.say(WorkerAudit{std::vector<AuditStep>(2), 2});
  REQUIRE(lab.supervisor.pump([&] { return answer<WorkerAudit>(lab, 0).size() == 2; }));
  REQUIRE(lab.supervisor.await<AgentReport>(0, lab.supervisor.all<AgentReport>(0).size() + 4));
  lab.break_connection();
  REQUIRE(lab.supervisor.await<AgentReport>(1, 2));
  REQUIRE(answer<WorkerAudit>(lab, 1).size() == 1);
  CHECK(answer<WorkerAudit>(lab, 1)[0].batch == 2);
}

TEST_CASE("an acknowledgement of a report that was never sent makes the agent forget nothing") {
  Lab lab;
  lab.spawn(kPatient);
  WorkerSide worker(lab.io, socket_of(lab, kWorker));
  worker.say(hello_of(kWorker));
  lab.supervisor.acknowledges = false;
  worker.say(WorkerAudit{std::vector<AuditStep>(2), 1});
  REQUIRE(lab.supervisor.pump([&] { return answer<WorkerAudit>(lab, 0).size() == 1; }));
  lab.supervisor.send(0, SupervisorHeartbeat{1'000, std::uint64_t{1} << 40});
  // A later order that is answered shows that the agent has read the one before.
  lab.spawn("echo later", kOther);
  REQUIRE(lab.supervisor.await_line(0, kOther, "later"));
  lab.break_connection();
  REQUIRE(lab.supervisor.await<AgentReport>(1, 2));
  CHECK(answer<WorkerAudit>(lab, 1).size() == 1);
}

TEST_CASE("if a connection is silent a second one is tried, and replaces it") {
  Lab lab([](AgentBootstrap& bootstrap) { bootstrap.worker_dead_ms = 300; });
  lab.spawn(kPatient);
  WorkerSide worker(lab.io, socket_of(lab, kWorker));
  worker.say(hello_of(kWorker));
  REQUIRE(lab.supervisor.await<FromWorker>(0));
  lab.supervisor.silent = true;
  REQUIRE(lab.supervisor.await<AgentHello>(1));
  lab.supervisor.silent = false;
  CHECK(lab.supervisor.pump([&] { return lab.supervisor.agents[0]->closed; }));
  CHECK(lab.supervisor.await<FromWorker>(1));
  CHECK(lab.supervisor.all<AgentHello>(1)[0].workers == std::vector<WorkerId>{kWorker});
}

TEST_CASE("workers of an agent whose supervisor stays away are notified and may end by themselves") {
  Lab lab([](AgentBootstrap& bootstrap) {
    bootstrap.orphan_grace_ms = 400;
    bootstrap.grace_ms = 60'000;
  });
  lab.spawn("trap 'exit 77' TERM; echo pid=$$ sock=$ELASTICTRAIN_SOCKET; while :; do sleep 0.05; done");
  WorkerSide worker(lab.io, socket_of(lab, kWorker));
  const pid_t pid = lab.pid_of(lab.supervisor.lines(0, kWorker).front());
  worker.say(hello_of(kWorker));
  lab.spawn("echo pid=$$; while :; do sleep 0.05; done", kOther);
  REQUIRE(lab.supervisor.await_line(0, kOther, "pid="));
  const pid_t plain = lab.pid_of(lab.supervisor.lines(0, kOther).front());
  REQUIRE(lab.supervisor.await<FromWorker>(0));
  lab.supervisor.stop_listening();
  lab.supervisor.agents[0]->connection->close();
  lab.supervisor.agents[0]->closed = true;
  REQUIRE(await_orphaned(lab, worker));
  // A program without our library gets no other notice than TERM.
  CHECK(lab.supervisor.pump([&] { return !is_running(plain); }));
  CHECK(is_running(pid));
  CHECK_FALSE(lab.end.has_value());
  ::kill(pid, SIGKILL);  // its own decision, from the agent's point of view
  REQUIRE(lab.await_end());
  CHECK(lab.end->status.exit_code == launcher::kAgentUnreachable);
}

TEST_CASE("an orphan that stays is ended when the grace is over") {
  Lab lab(300);
  lab.spawn("trap '' TERM; echo pid=$$ sock=$ELASTICTRAIN_SOCKET; while :; do sleep 0.05; done");
  WorkerSide worker(lab.io, socket_of(lab, kWorker));
  const pid_t pid = lab.pid_of(lab.supervisor.lines(0, kWorker).front());
  worker.say(hello_of(kWorker));
  REQUIRE(lab.supervisor.await<FromWorker>(0));
  lab.supervisor.stop_listening();
  lab.supervisor.agents[0]->connection->close();
  lab.supervisor.agents[0]->closed = true;
  REQUIRE(lab.await_end());
  CHECK_FALSE(is_running(pid));
  CHECK(entries(lab.directory.path) == 0);
}

// --- The host

TEST_CASE("TERM to the agent is a notice: its elastic workers continue until they are asked to leave") {
  Lab lab([](AgentBootstrap& bootstrap) { bootstrap.grace_ms = 60'000; });
  lab.spawn(kPatient);
  WorkerSide worker(lab.io, socket_of(lab, kWorker));
  const pid_t pid = lab.pid_of(lab.supervisor.lines(0, kWorker).front());
  worker.say(hello_of(kWorker));
  lab.spawn("echo up; while :; do sleep 0.05; done", kOther);
  REQUIRE(lab.supervisor.await_line(0, kOther, "up"));
  REQUIRE(lab.supervisor.await<FromWorker>(0));
  ::kill(lab.command->pid(), SIGTERM);
  REQUIRE(lab.supervisor.await<HostNotice>(0));
  CHECK(contains(lab.supervisor.all<HostNotice>(0)[0].reason, "TERM"));
  CHECK(lab.await_exit(kOther).signal == SIGTERM);
  lab.spawn("true", WorkerId{5});
  REQUIRE(lab.supervisor.await<WorkerSpawnFailed>(0));
  CHECK(is_running(pid));
  lab.supervisor.send(0, StopWorker{kWorker, 1'000});
  CHECK(lab.await_exit().signal == SIGTERM);
  REQUIRE(lab.await_end());
  CHECK(lab.end->status.exit_code == launcher::kAgentStopped);
}

TEST_CASE("an elastic worker that is not asked to leave is ended within the grace after TERM to its agent") {
  Lab lab;
  lab.spawn("trap '' TERM; echo pid=$$ sock=$ELASTICTRAIN_SOCKET; while :; do sleep 0.05; done");
  WorkerSide worker(lab.io, socket_of(lab, kWorker));
  worker.say(hello_of(kWorker));
  REQUIRE(lab.supervisor.await<FromWorker>(0));
  ::kill(lab.command->pid(), SIGTERM);
  CHECK(lab.await_exit().signal == SIGKILL);
  CHECK(lab.await_end());
}

TEST_CASE("a second TERM, or INT, does not wait for anybody to leave") {
  for (const std::vector<int>& signals : {std::vector<int>{SIGTERM, SIGTERM}, std::vector<int>{SIGINT}}) {
    Lab lab([](AgentBootstrap& bootstrap) { bootstrap.grace_ms = 60'000; });
    lab.spawn(kPatient);
    WorkerSide worker(lab.io, socket_of(lab, kWorker));
    worker.say(hello_of(kWorker));
    REQUIRE(lab.supervisor.await<FromWorker>(0));
    for (const int number : signals) {
      ::kill(lab.command->pid(), number);
      lab.supervisor.pump([] { return false; }, std::chrono::milliseconds(100));
    }
    CHECK(lab.await_exit().signal == SIGTERM);
    CHECK(lab.await_end());
  }
}

TEST_CASE("the notice command's yes is reported once, and again after a reconnect") {
  Lab lab([](AgentBootstrap& bootstrap) {
    bootstrap.notice_probe = "[ -e $XDG_RUNTIME_DIR/going ] && echo \"$ELASTICTRAIN_JOB_ID on $ELASTICTRAIN_HOST\"";
    bootstrap.notice_probe_ms = 50;
  });
  REQUIRE(lab.supervisor.await<AgentReport>(0, 6));
  CHECK(lab.supervisor.all<HostNotice>(0).empty());
  std::ofstream(lab.directory.path + "/going") << "";
  REQUIRE(lab.supervisor.await<HostNotice>(0));
  REQUIRE(lab.supervisor.await<AgentReport>(0, lab.supervisor.all<AgentReport>(0).size() + 6));
  REQUIRE(lab.supervisor.all<HostNotice>(0).size() == 1);
  CHECK(lab.supervisor.all<HostNotice>(0)[0].reason == "reported by its notice command: test on here");
  lab.spawn("exit 3");  // the one that the agent itself runs on
  CHECK(lab.await_exit().exit_code == 3);
  lab.break_connection();
  CHECK(lab.supervisor.await<HostNotice>(1));
}

TEST_CASE("an agent launched anew on a host ends the one that was given up there, stopped as it may be") {
  Lab lab;
  lab.spawn("trap '' TERM; echo pid=$$; while :; do sleep 0.05; done");
  REQUIRE(lab.supervisor.await_line(0, kWorker, "pid="));
  const pid_t worker = lab.pid_of(lab.supervisor.lines(0, kWorker).front());
  const auto launch = [&](AgentBootstrap bootstrap) {
    CommandSpec spec{.argv = {TEST_AGENT, "agent"}};
    spec.input = encode_frame(Bootstrap(bootstrap));
    spec.sweep_session = true;
    spec.stop_signal = SIGINT;
    const auto before = lab.supervisor.agents.size();
    auto command = Command::start(lab.io, std::move(spec), nullptr, [](CommandEnd) {});
    REQUIRE(command.ok());
    REQUIRE(lab.supervisor.await<AgentHello>(before));
    return std::move(*command);
  };
  auto elsewhere = lab.supervisor.bootstrap(AgentId{2});
  elsewhere.host = "another name";
  const auto neighbour = launch(elsewhere);
  CHECK(is_running(lab.command->pid()));

  ::kill(lab.command->pid(), SIGSTOP);
  const auto newer = launch(lab.supervisor.bootstrap(AgentId{4}));
  REQUIRE(lab.await_end());
  CHECK(lab.end->status.signal == SIGKILL);
  CHECK(lab.supervisor.pump([&] { return !is_running(worker); }));
  CHECK(is_running(neighbour->pid()));
  CHECK(is_running(newer->pid()));
  for (const auto& command : {neighbour, newer}) {
    command->terminate();
    CHECK(lab.supervisor.pump([&] { return !is_running(command->pid()); }));
  }
}

TEST_CASE("an agent that is stopped for longer than its workers may be orphans is ended by its guardian") {
  Lab lab([](AgentBootstrap& bootstrap) {
    bootstrap.orphan_grace_ms = 200;
    bootstrap.grace_ms = 200;
  });
  lab.spawn("trap '' TERM; echo pid=$$; while :; do sleep 0.05; done");
  REQUIRE(lab.supervisor.await_line(0, kWorker, "pid="));
  const pid_t worker = lab.pid_of(lab.supervisor.lines(0, kWorker).front());
  ::kill(lab.command->pid(), SIGSTOP);
  REQUIRE(lab.await_end());
  CHECK(lab.end->status.signal == SIGKILL);
  CHECK(lab.supervisor.pump([&] { return !is_running(worker); }));
}

// --- The workers

TEST_CASE("reports tell the CPU time of the process that trains, and whether it is stopped") {
  Lab lab;
  lab.spawn(kPatient);
  const auto path = socket_of(lab, kWorker);
  const auto frame = encode_frame(WorkerToAgent(hello_of(kWorker)));
  // Not the shell that was started, but one of its child processes.
  const pid_t trainer = ::fork();
  if (trainer == 0) {
    asio::io_context io;
    asio::local::stream_protocol::socket socket(io);
    socket.connect(asio::local::stream_protocol::endpoint(path));
    asio::write(socket, asio::buffer(frame));
    for (;;) ::getppid();
  }
  const auto any_sample = [&](const auto& holds) {
    return lab.supervisor.pump([&] {
      for (const auto& report : lab.supervisor.all<AgentReport>(0)) {
        for (const auto& sample : report.workers) {
          if (sample.worker == kWorker && holds(sample)) return true;
        }
      }
      return false;
    });
  };
  CHECK(any_sample([](const WorkerSample& sample) { return sample.cpu_ms >= 50 && !sample.stopped; }));
  ::kill(trainer, SIGSTOP);
  CHECK(any_sample([](const WorkerSample& sample) { return sample.stopped; }));
  ::kill(trainer, SIGKILL);
  ::waitpid(trainer, nullptr, 0);
}

TEST_CASE("the stacks of a worker are sent as lines, also for one that is stopped or gone") {
  Lab lab;
  lab.spawn("echo up; while :; do sleep 1000; done");
  REQUIRE(lab.supervisor.await_line(0, kWorker, "up"));
  lab.supervisor.send(0, SignalWorker{kWorker, SIGSTOP});
  lab.supervisor.send(0, AskAgent{Question::kStacks, kWorker, 300});
  lab.supervisor.send(0, AskAgent{Question::kStacks, WorkerId{99}, 300});
  REQUIRE(lab.supervisor.await<AgentAnswer>(0, 2));
  for (const auto& stacks : lab.supervisor.all<AgentAnswer>(0)) {
    REQUIRE_FALSE(stacks.lines.empty());
    if (stacks.worker == kWorker)
      CHECK(contains(stacks.lines[0], "\"sh\""));
    else
      CHECK(stacks.lines[0] == "its process has ended");
  }
}

TEST_CASE("what a program wrote to its error file stands before its last lines, but only if it failed") {
  Lab lab;
  lab.spawn(R"(echo noise >&2; echo '{"message": {"message": "RuntimeError: no memory"}}' >$TORCHELASTIC_ERROR_FILE
            exit 3)");
  CHECK(lab.await_exit().last_error_lines == std::vector<std::string>{"RuntimeError: no memory", "noise"});
  lab.spawn(R"(echo noise >&2; echo '{"message": "old"}' >$TORCHELASTIC_ERROR_FILE; exit 0)", kOther);
  CHECK(lab.await_exit(kOther).last_error_lines == std::vector<std::string>{"noise"});
}

TEST_CASE("a supervisor that does not read holds up no worker, and gets the last lines and the number of the others") {
  Lab lab;
  const auto done = lab.directory.path + "/done";
  lab.spawn("seq 1 2000000; touch " + done);
  REQUIRE(lab.supervisor.await<WorkerSpawned>(0));
  // The test does not run this loop meanwhile: for the agent, the supervisor is a reader that has stopped reading.
  for (int i = 0; i < 2000 && !std::filesystem::exists(done); ++i) ::usleep(10'000);
  REQUIRE(std::filesystem::exists(done));
  CHECK(lab.await_exit().exit_code == 0);
  std::uint64_t lines = 0;
  std::uint64_t dropped = 0;
  for (const auto& output : lab.supervisor.all<WorkerOutput>(0)) {
    lines += output.lines.size();
    dropped += output.dropped;
  }
  CHECK(lines + dropped == 2'000'000);
  CHECK(dropped > 0);
  CHECK(lab.supervisor.lines(0, kWorker).back() == "2000000");
}

// --- Descriptors

TEST_CASE("an agent takes all descriptors that it may have, its workers keep the limit that the user chose") {
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const auto soft = std::to_string(limit.rlim_max / 2);
  Lab lab([](AgentBootstrap&) {}, {"sh", "-c", "ulimit -Sn " + soft + R"(; exec "$0" agent)", TEST_AGENT});
  lab.spawn("echo limit=$(ulimit -Sn)");
  CHECK(lab.supervisor.await_line(0, kWorker, "limit=" + soft));
  rlimit agent{};
  REQUIRE(::prlimit(lab.command->pid(), RLIMIT_NOFILE, nullptr, &agent) == 0);
  CHECK(agent.rlim_cur == agent.rlim_max);
}

TEST_CASE("without descriptors a spawn fails with the remedy, the agent continues and does not spin") {
  Lab lab([](AgentBootstrap&) {}, {"sh", "-c", R"(ulimit -n 40; exec "$0" agent)", TEST_AGENT});
  std::uint32_t next = 10;
  std::vector<WorkerId> living;
  while (lab.supervisor.all<WorkerSpawnFailed>(0).empty() && next < 40) {
    const auto before = lab.supervisor.all<WorkerSpawned>(0).size();
    living.push_back(WorkerId{next++});
    lab.spawn("echo sock=$ELASTICTRAIN_SOCKET; while :; do sleep 0.1; done", living.back());
    REQUIRE(lab.supervisor.pump([&] {
      return lab.supervisor.all<WorkerSpawned>(0).size() > before || !lab.supervisor.all<WorkerSpawnFailed>(0).empty();
    }));
  }
  REQUIRE(lab.supervisor.all<WorkerSpawnFailed>(0).size() == 1);
  const auto reason = lab.supervisor.all<WorkerSpawnFailed>(0)[0].reason;
  CHECK(contains(reason, "Too many open files"));
  CHECK(contains(reason, "ulimit -n"));

  // Connections use the remaining descriptors. The last ones wait in the queue of their sockets.
  std::vector<std::unique_ptr<WorkerSide>> sides;
  living.pop_back();
  for (const WorkerId worker : living) {
    sides.push_back(std::make_unique<WorkerSide>(lab.io, socket_of(lab, worker)));
    sides.back()->say(hello_of(worker));
  }
  const auto cpu = [&] { return launcher::read_process_stat(lab.command->pid())->cpu_ms; };
  const auto before = cpu();
  const auto reports = lab.supervisor.all<AgentReport>(0).size();
  REQUIRE(lab.supervisor.await<AgentReport>(0, reports + 20));
  CHECK(cpu() - before < 500);

  // Once descriptors are free again, the waiting connections are accepted.
  lab.supervisor.send(0, StopWorker{living[0], 0});
  lab.supervisor.send(0, StopWorker{living[1], 0});
  CHECK(lab.supervisor.pump([&] { return answer<WorkerHello>(lab, 0).size() >= living.size() - 2; }));
}
