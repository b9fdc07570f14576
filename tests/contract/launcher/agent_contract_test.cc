// Real agents, real workers and a real TLS connection. Only the supervisor's decisions are made by the test.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/error_code.hpp>
#include <asio/io_context.hpp>
#include <asio/write.hpp>
#include <filesystem>
#include <optional>
#include <thread>

#include "agent_lab.h"
#include "launcher/agent/binding.h"
#include "supervisor/protocol/agent_messages.h"
#include "supervisor/protocol/codec.h"
#include "supervisor/protocol/limits.h"
#include "tests/skip.h"

using namespace elastictrain;
using namespace elastictrain::testing;

TEST_CASE("an agent identifies itself and its reports show that it is alive") {
  Lab lab;
  const auto hello = lab.supervisor.all<AgentHello>(0).at(0);
  CHECK(hello.agent == AgentId{1});
  CHECK(hello.protocol_version == limits::kProtocolVersion);
  CHECK(hello.binary_version == ELASTICTRAIN_VERSION);
  CHECK(hello.pid == lab.command->pid());
  CHECK(hello.cores > 0);
  REQUIRE(lab.supervisor.await<AgentReport>(0, 3));
  const auto reports = lab.supervisor.all<AgentReport>(0);
  CHECK(reports[1].sequence == reports[0].sequence + 1);
}

TEST_CASE("what an agent's host is comes at once, what its GPUs are when that is known") {
  Lab lab;
  lab.supervisor.send(0, CheckHost{{"NCCL_SOCKET_IFNAME=ib0"}, 20'000});
  REQUIRE(lab.supervisor.await<AcceleratorFacts>(0));
  const auto facts = lab.supervisor.all<HostFacts>(0).at(0);
  CHECK(facts.cores > 0);
  CHECK(facts.addresses == std::vector<std::string>{"127.0.0.1"});
  CHECK(facts.interface == "lo");
  CHECK(facts.nccl_interface == "ib0");
  const auto found = lab.supervisor.all<AcceleratorFacts>(0).at(0);
  CHECK(found.problem == "the process that looks for GPUs ended with exit status 64");  // of this test's agent
}

// A process of the same user that binds the worker's port as NCCL does.
TEST_CASE("an agent asks the RAS service of another worker than the doubtful one") {
  constexpr WorkerId kOther{4};
  Lab lab;
  lab.spawn("echo $NCCL_RAS_ADDR; exec sleep 1000", kOther);
  lab.spawn("echo $NCCL_RAS_ADDR; exec sleep 1000");
  const auto address = [&](WorkerId worker) {
    REQUIRE(lab.supervisor.await_line(0, worker, "127.0.0.1:"));
    return lab.supervisor.lines(0, worker)[0];
  };
  const std::string of_other = address(kOther);
  CHECK(of_other != address(kWorker));
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  place.sin_port = htons(static_cast<std::uint16_t>(std::stoi(of_other.substr(10))));
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes);
  REQUIRE(::bind(listener, reinterpret_cast<sockaddr*>(&place), sizeof place) == 0);
  REQUIRE(::listen(listener, 4) == 0);
  std::thread service([&] {
    const int connection = ::accept(listener, nullptr, nullptr);
    constexpr std::string_view kReport = "SERVER PROTOCOL 2\nOK\nNCCL version 2.28.9\n";
    (void)::send(connection, kReport.data(), kReport.size(), MSG_NOSIGNAL);
    ::shutdown(connection, SHUT_WR);
    char block[256];
    while (::recv(connection, block, sizeof block, 0) > 0) {
    }
    ::close(connection);
  });
  lab.supervisor.send(0, AskAgent{Question::kCollectives, kWorker, 10'000});
  CHECK(lab.supervisor.await<AgentAnswer>(0));
  ::shutdown(listener, SHUT_RDWR);
  service.join();
  ::close(listener);
  CHECK(lab.supervisor.all<AgentAnswer>(0).at(0).lines == std::vector<std::string>{"NCCL 2.28.9 says:"});
}

TEST_CASE("a worker's start, output and exit arrive whole and in order") {
  Lab lab;
  lab.spawn("echo out1; echo err1 >&2; printf 'a\\rb\\rlast\\n'; printf partial; exit 7");
  const auto exited = lab.await_exit();
  CHECK(exited.exit_code == 7);
  CHECK(exited.signal == 0);
  CHECK(exited.last_error_lines == std::vector<std::string>{"err1"});
  REQUIRE(lab.supervisor.all<WorkerSpawned>(0).size() == 1);
  CHECK(lab.supervisor.all<WorkerSpawned>(0)[0].pid > 0);
  CHECK(lab.supervisor.lines(0, kWorker) == std::vector<std::string>{"out1", "last", "partial"});
  CHECK(lab.supervisor.lines(0, kWorker, true) == std::vector<std::string>{"err1"});
}

TEST_CASE("an unfinished line is shown after a short idle time while the worker continues") {
  Lab lab;
  lab.spawn("printf 'are you sure? '; sleep 1000");
  CHECK(lab.supervisor.await_line(0, kWorker, "are you sure? "));
}

TEST_CASE("of a worker on several hosts, each process finds the key, and where the first one listens") {
  constexpr const char* kScript =
      "env | grep ^ELASTICTRAIN_REPLICA_ | sort; stat -c %a $ELASTICTRAIN_REPLICA_KEY_FILE;"
      "cat $ELASTICTRAIN_REPLICA_KEY_FILE; echo; echo told; exec sleep 1000";
  Lab lab;
  SpawnWorker order{kWorker, 0, {"sh", "-c", kScript}, {}, "/"};
  order.replica = {2, 0, "", {}};
  order.replica.key.fill(0xa5);
  std::string address;
  SUBCASE("the first one") {
    lab.supervisor.send(0, order);
    REQUIRE(lab.supervisor.await<ReplicaListens>(0));
    const auto listens = lab.supervisor.all<ReplicaListens>(0).at(0);
    CHECK(listens.worker == kWorker);
    CHECK(contains(listens.address, "127.0.0.1:"));
    address = listens.address;
    lab.break_connection();
    REQUIRE(lab.supervisor.await<ReplicaListens>(1));
    CHECK(lab.supervisor.all<ReplicaListens>(1).at(0).address == address);
  }
  SUBCASE("another one") {
    order.replica.host = 1;
    order.replica.address = address = "10.0.0.1:4000";
    lab.supervisor.send(0, order);
  }
  const std::size_t agent = lab.supervisor.agents.size() - 1;
  const auto lines = [&] {
    auto all = lab.supervisor.lines(0, kWorker);
    for (const auto& line : agent == 0 ? std::vector<std::string>{} : lab.supervisor.lines(agent, kWorker))
      all.push_back(line);
    return all;
  };
  REQUIRE(lab.supervisor.pump([&] { return !lines().empty() && lines().back() == "told"; }));
  const auto found = lines();
  REQUIRE(found.size() == 7);
  CHECK(found[0] == "ELASTICTRAIN_REPLICA_ADDRESS=" + address);
  CHECK(found[1] == "ELASTICTRAIN_REPLICA_HOST=" + std::to_string(order.replica.host));
  CHECK(found[2] == "ELASTICTRAIN_REPLICA_INTERFACE=lo");
  CHECK(contains(found[3], "-replica.key"));
  CHECK(found[4] == "600");
  std::string key;
  for (int i = 0; i < 32; ++i) key += "a5";
  CHECK(found[5] == key);
  const std::string file = found[3].substr(found[3].find('=') + 1);
  CHECK(std::filesystem::exists(file));
  lab.supervisor.send(agent, StopWorker{kWorker, 1000});
  lab.await_exit(kWorker, agent);
  CHECK(!std::filesystem::exists(file));
}

TEST_CASE("a worker finds its environment, a null input and its directory") {
  Lab lab;
  lab.spawn("env | sort; pwd; cat; readlink /proc/self/fd/0; exit 0");
  lab.await_exit();
  std::map<std::string, std::string> environment;
  const auto lines = lab.supervisor.lines(0, kWorker);
  for (const auto& line : lines) environment[line.substr(0, line.find('='))] = line.substr(line.find('=') + 1);
  CHECK(environment["EXTRA"] == "yes");
  CHECK(environment["ELASTICTRAIN_WORKER_ID"] == "3");
  CHECK(environment["ELASTICTRAIN_BIND"] == "127.0.0.1");
  CHECK(environment["ELASTICTRAIN_HEARTBEAT_MS"] == "50");
  CHECK(environment["ELASTICTRAIN_ORPHAN_GRACE_MS"] == "60000");
  CHECK(environment["ELASTICTRAIN_HOST_KEY"].size() == 32);
  CHECK(contains(environment["ELASTICTRAIN_SOCKET"], "/w3.sock"));
  CHECK(contains(environment["TORCHELASTIC_ERROR_FILE"], "/w3-error.json"));
  CHECK(lines[lines.size() - 2] == "/");
  CHECK(lines[lines.size() - 1] == "/dev/null");
}

TEST_CASE("the data plane is bound to the interface that the user names") {
  Lab lab(60'000, "lo");
  lab.spawn("echo bind=$ELASTICTRAIN_BIND");
  CHECK(lab.supervisor.await_line(0, kWorker, "bind=127.0.0.1"));
}

TEST_CASE("an interface that is not there fails the spawn and lists those that are") {
  Lab lab(60'000, "nosuch0");
  lab.spawn("true");
  REQUIRE(lab.supervisor.await<WorkerSpawnFailed>(0));
  CHECK(contains(lab.supervisor.all<WorkerSpawnFailed>(0)[0].reason, "nosuch0"));
}

TEST_CASE("a program that cannot be run and an id used twice are spawn failures") {
  Lab lab;
  lab.supervisor.send(0, SpawnWorker{kWorker, 0, {"/nonexistent/train"}, {}, ""});
  REQUIRE(lab.supervisor.await<WorkerSpawnFailed>(0));
  CHECK(contains(lab.supervisor.all<WorkerSpawnFailed>(0)[0].reason, "/nonexistent/train"));
  lab.spawn("sleep 1000");
  lab.spawn("sleep 1000");
  REQUIRE(lab.supervisor.await<WorkerSpawnFailed>(0, 2));
  CHECK(contains(lab.supervisor.all<WorkerSpawnFailed>(0)[1].reason, "already runs here"));
}

TEST_CASE("@self is the agent's own binary") {
  Lab lab;
  lab.supervisor.send(0, SpawnWorker{kWorker, 0, {"@self", "--build-id"}, {}, ""});
  CHECK(lab.await_exit().exit_code == 0);
  CHECK(lab.supervisor.lines(0, kWorker).at(0).starts_with(ELASTICTRAIN_VERSION));
}

TEST_CASE("a worker is bound to the processors of its slot, and to nothing where nothing is asked for") {
  const auto allowed = launcher::allowed_processors();
  std::uint32_t worker = 0;
  Lab lab;
  for (const std::string bind : {"none", "core", "numa"}) {
    for (std::uint32_t slot = 0; slot < 2; ++slot) {
      const WorkerId id{++worker};
      const std::vector<std::string> environment{"ELASTICTRAIN_CPU_BIND=" + bind, "ELASTICTRAIN_SLOTS=2",
                                                 "ELASTICTRAIN_SLOT=" + std::to_string(slot)};
      lab.supervisor.send(
          0, SpawnWorker{id,
                         slot,
                         {"sh", "-c", "grep Cpus_allowed_list /proc/self/status; echo =$ELASTICTRAIN_PROCESSORS"},
                         environment,
                         ""});
      CHECK(lab.await_exit(id).exit_code == 0);
      const std::string line = lab.supervisor.lines(0, id).at(0);
      const auto found = launcher::parse_processor_list(line.substr(line.find('\t') + 1));
      const auto wanted = *launcher::processors_of_worker(bind, environment);
      CHECK(found == (wanted.empty() ? allowed : wanted));
      CHECK(lab.supervisor.lines(0, id).at(1) == (wanted.empty() ? "=" : "=" + std::to_string(allowed.size())));
      if (bind == "none") CHECK(wanted.empty());
    }
  }
}

TEST_CASE("a way to bind that there is not is a spawn failure") {
  Lab lab;
  lab.supervisor.send(0, SpawnWorker{kWorker, 0, {"true"}, {"ELASTICTRAIN_CPU_BIND=socket"}, ""});
  REQUIRE(lab.supervisor.await<WorkerSpawnFailed>(0));
  CHECK(contains(lab.supervisor.all<WorkerSpawnFailed>(0)[0].reason, "is not one of none, core, numa and gpu-numa"));
}

TEST_CASE("signals reach the worker and its children") {
  Lab lab;
  lab.spawn("trap 'echo got usr1' USR1; echo up; while :; do sleep 0.05; done");
  REQUIRE(lab.supervisor.await_line(0, kWorker, "up"));
  lab.supervisor.send(0, SignalWorker{kWorker, SIGUSR1});
  CHECK(lab.supervisor.await_line(0, kWorker, "got usr1"));
  lab.supervisor.send(0, SignalWorker{kWorker, 12345});
  lab.supervisor.send(0, SignalWorker{WorkerId{99}, SIGKILL});
  lab.supervisor.send(0, SignalWorker{kWorker, SIGKILL});
  CHECK(lab.await_exit().signal == SIGKILL);
}

TEST_CASE("a worker that heeds TERM ends by itself, one that ignores it is killed after the grace") {
  Lab lab;
  lab.spawn("trap 'exit 5' TERM; echo up; while :; do sleep 0.05; done");
  lab.spawn("trap '' TERM; echo up; while :; do sleep 0.05; done", WorkerId{4});
  REQUIRE(lab.supervisor.await_line(0, kWorker, "up"));
  REQUIRE(lab.supervisor.await_line(0, WorkerId{4}, "up"));
  lab.supervisor.send(0, StopWorker{kWorker, 60'000});
  lab.supervisor.send(0, StopWorker{WorkerId{4}, 100});
  CHECK(lab.await_exit().exit_code == 5);
  CHECK(lab.await_exit(WorkerId{4}).signal == SIGKILL);
}

TEST_CASE("what a worker leaves in its group ends with it, and the exit does not wait for strangers on the pipe") {
  Lab lab;
  lab.spawn(
      "trap 'exit 0' TERM; sleep 1000 & echo in=$!; setsid sh -c 'echo out=$$; exec sleep 1000' & "
      "while :; do sleep 0.05; done");
  REQUIRE(lab.supervisor.await_line(0, kWorker, "in="));
  REQUIRE(lab.supervisor.await_line(0, kWorker, "out="));
  lab.supervisor.send(0, StopWorker{kWorker, 60'000});
  CHECK(lab.await_exit().exit_code == 0);
  std::map<std::string, pid_t> pids;
  for (const auto& line : lab.supervisor.lines(0, kWorker)) {
    pids[line.substr(0, line.find('='))] = std::stoi(line.substr(line.find('=') + 1));
  }
  const pid_t in_group = pids["in"];
  const pid_t escaped = pids["out"];
  CHECK(lab.supervisor.pump([&] { return !is_running(in_group); }));
  CHECK(is_running(escaped));
  lab.supervisor.send(0, StopAgent{100});
  REQUIRE(lab.await_end());
  CHECK(lab.supervisor.pump([&] { return !is_running(escaped); }));
}

TEST_CASE("StopAgent stops every worker, tells each end and leaves nothing") {
  Lab lab;
  lab.spawn("sleep 1000");
  lab.spawn("trap '' TERM; echo up; sleep 1000", WorkerId{4});
  REQUIRE(lab.supervisor.await_line(0, WorkerId{4}, "up"));
  lab.supervisor.send(0, StopAgent{100});
  lab.spawn("sleep 1000", WorkerId{5});
  CHECK(lab.await_exit().signal == SIGTERM);
  CHECK(lab.await_exit(WorkerId{4}).signal == SIGKILL);
  CHECK(lab.supervisor.await<WorkerSpawnFailed>(0));
  REQUIRE(lab.await_end());
  CHECK(lab.end->status.exit_code == launcher::kAgentStopped);
  CHECK(entries(lab.directory.path) == 0);
}

TEST_CASE("TERM to the agent stops its workers within the grace") {
  Lab lab;
  lab.spawn("trap '' TERM; echo up; while :; do sleep 0.05; done");
  REQUIRE(lab.supervisor.await_line(0, kWorker, "up"));
  ::kill(lab.command->pid(), SIGTERM);
  CHECK(lab.await_exit().signal == SIGKILL);
  REQUIRE(lab.await_end());
  CHECK(lab.end->status.exit_code == 0);
}

TEST_CASE("a killed agent takes its workers along") {
  Lab lab;
  lab.spawn("sleep 1000 & echo $!; wait");
  REQUIRE(lab.supervisor.pump([&] { return !lab.supervisor.lines(0, kWorker).empty(); }));
  const pid_t grandchild = std::stoi(lab.supervisor.lines(0, kWorker)[0]);
  ::kill(lab.command->pid(), SIGKILL);
  REQUIRE(lab.await_end());
  CHECK(lab.supervisor.pump([&] { return !is_running(grandchild); }));
}

#ifdef __SANITIZE_THREAD__
constexpr std::uint64_t kFloodLines = 300'000;  // each costs twenty times as much
#else
constexpr std::uint64_t kFloodLines = 3'000'000;
#endif

TEST_CASE("a flood of output never blocks the worker and what is dropped is counted") {
  Lab lab;
  lab.spawn("seq 1 " + std::to_string(kFloodLines) + "; echo done >&2");
  const auto exited = lab.await_exit();
  CHECK(exited.exit_code == 0);
  std::uint64_t seen = 0;
  std::uint64_t dropped = 0;
  std::uint64_t previous = 0;
  bool exact = true;
  for (const auto& output : lab.supervisor.all<WorkerOutput>(0)) {
    if (output.is_stderr) continue;
    dropped += output.dropped;
    seen += output.lines.size();
    if (output.lines.empty()) continue;
    exact = exact && std::stoull(output.lines.front()) == previous + output.dropped + 1;
    previous = std::stoull(output.lines.back());
  }
  CHECK(exact);
  CHECK(seen + dropped == kFloodLines);
  CHECK(lab.supervisor.lines(0, kWorker, true) == std::vector<std::string>{"done"});
}

TEST_CASE("only the last twenty error lines come with the exit") {
  Lab lab;
  lab.spawn("seq 1 100 >&2; exit 1");
  const auto exited = lab.await_exit();
  REQUIRE(exited.last_error_lines.size() == 20);
  CHECK(exited.last_error_lines.front() == "81");
  CHECK(exited.last_error_lines.back() == "100");
}

TEST_CASE("messages pass between worker and supervisor, heartbeats folded into reports") {
  Lab lab;
  WorkerSide worker(lab.io, lab.socket_path());
  worker.say(WorkerHello{limits::kProtocolVersion, kWorker, 42, "v"});
  worker.say(WorkerReady{});
  REQUIRE(lab.supervisor.await<FromWorker>(0, 2));
  CHECK(std::get<WorkerHello>(lab.supervisor.all<FromWorker>(0)[0].message).pid == 42);
  WorkerHeartbeat heartbeat;
  heartbeat.sequence = 9;
  heartbeat.steps = 2;
  worker.say(heartbeat);
  const auto samples = [&] {
    std::vector<WorkerSample> found;
    for (const auto& report : lab.supervisor.all<AgentReport>(0)) {
      found.insert(found.end(), report.workers.begin(), report.workers.end());
    }
    return found;
  };
  REQUIRE(lab.supervisor.pump([&] { return !samples().empty() && samples()[0].heartbeat.sequence == 9; }));
  REQUIRE(lab.supervisor.pump([&] { return samples().size() >= 2 && samples().back().quiet_ms >= 100; }));

  lab.supervisor.send(0, ToWorkers{{kWorker, WorkerId{77}}, Commit{5}});
  protocol::FrameReader reader(1 << 20);
  std::optional<std::string> body;
  char block[256];
  while (!body) {
    lab.supervisor.pump([&] { return worker.socket.available() > 0; });
    REQUIRE(reader.feed({block, worker.socket.read_some(asio::buffer(block))}).ok());
    body = reader.next();
  }
  const auto message = decode_body<WorkerDown>(*body);
  REQUIRE(message.ok());
  CHECK(std::get<Commit>(*message).generation == 5);
}

TEST_CASE("a worker may come back to its socket and then gets what waited for it") {
  Lab lab;
  const auto path = lab.socket_path();
  {
    WorkerSide first(lab.io, path);
    first.say(WorkerHello{limits::kProtocolVersion, kWorker, 1, "v"});
    REQUIRE(lab.supervisor.await<FromWorker>(0, 1));
  }
  REQUIRE(lab.supervisor.await<AgentReport>(0, lab.supervisor.all<AgentReport>(0).size() + 2));
  lab.supervisor.send(0, ToWorkers{{kWorker}, Cancel{6}});
  REQUIRE(lab.supervisor.await<AgentReport>(0, lab.supervisor.all<AgentReport>(0).size() + 2));
  WorkerSide second(lab.io, path);
  CHECK(lab.supervisor.pump([&] { return second.socket.available() > 0; }));
}

TEST_CASE("the last output of a worker is reported before its exit") {
  Lab lab;
  const auto path = lab.socket_path();
  WorkerSide worker(lab.io, path);
  worker.say(WorkerHello{limits::kProtocolVersion, kWorker, 1, "v"});
  REQUIRE(lab.supervisor.await<FromWorker>(0, 1));
  const auto pid = lab.supervisor.all<WorkerSpawned>(0)[0].pid;
  for (int i = 0; i < 200; ++i) worker.say(WorkerNote{"n", std::string(200, 'x')});
  worker.say(WorkerFinished{10});
  worker.socket.close();
  ::kill(static_cast<pid_t>(pid), SIGKILL);
  lab.await_exit();
  std::size_t exit_place = 0;
  std::size_t finished_place = 0;
  const auto& messages = lab.supervisor.agents[0]->messages;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const auto* answer = std::get_if<FromWorker>(&messages[i]);
    if (answer != nullptr && std::holds_alternative<WorkerFinished>(answer->message)) finished_place = i;
    if (std::holds_alternative<WorkerExited>(messages[i])) exit_place = i;
  }
  CHECK(finished_place > 0);
  CHECK(finished_place < exit_place);
}

TEST_CASE("a worker that sends malformed frames is dropped and reported, and may reconnect") {
  Lab lab;
  const auto path = lab.socket_path();
  const std::string oversized("\xff\xff\xff\x7f", 4);
  const std::string malformed("\x03\x00\x00\x00xyz", 7);
  const std::string impostor = encode_frame(WorkerToAgent(WorkerHello{limits::kProtocolVersion, WorkerId{9}, 1, "v"}));
  std::size_t faults = 0;
  for (const auto& frame : {oversized, malformed, impostor}) {
    WorkerSide worker(lab.io, path);
    asio::write(worker.socket, asio::buffer(frame));
    ++faults;
    CHECK(lab.supervisor.pump([&] { return lab.supervisor.lines(0, kWorker, true).size() >= faults; }));
    char byte = 0;
    asio::error_code error;
    worker.socket.read_some(asio::buffer(&byte, 1), error);
    CHECK(error == asio::error::eof);
  }
  for (const auto& line : lab.supervisor.lines(0, kWorker, true)) {
    CHECK(contains(line, "worker w3"));
    CHECK(contains(line, "connection was closed"));
  }
  WorkerSide good(lab.io, path);
  good.say(WorkerHello{limits::kProtocolVersion, kWorker, 1, "v"});
  CHECK(lab.supervisor.await<FromWorker>(0, 1));
}

TEST_CASE("a worker that does not read its socket is dropped and named") {
  Lab lab;
  WorkerSide worker(lab.io, lab.socket_path());
  worker.say(WorkerHello{limits::kProtocolVersion, kWorker, 1, "v"});
  REQUIRE(lab.supervisor.await<FromWorker>(0, 1));
  Dismiss large{std::string(900'000, 'x')};
  for (int i = 0; i < 90; ++i) {
    lab.supervisor.send(0, ToWorkers{{kWorker}, large});
    REQUIRE(lab.supervisor.pump([&] { return lab.supervisor.agents[0]->connection->queued_bytes() < (1u << 20); }));
  }
  CHECK(lab.supervisor.await_line(0, kWorker, "does not read its socket", true));
}

TEST_CASE("another user cannot talk to a worker's socket") {
  if (::geteuid() != 0) {
    elastictrain::tests::skip_aloud("only root can try another user's access");
    return;
  }
  Lab lab;
  const auto path = lab.socket_path();
  std::filesystem::permissions(lab.directory.path, std::filesystem::perms(0755));
  // The directory is opened deliberately: the check of credentials must also hold if the directory does not protect the
  // socket.
  std::filesystem::permissions(std::filesystem::path(path).parent_path(), std::filesystem::perms(0755));
  std::filesystem::permissions(path, std::filesystem::perms(0777));
  const pid_t stranger = ::fork();
  if (stranger == 0) {
    if (::setuid(65534) != 0) ::_exit(2);
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::copy(path.begin(), path.end(), address.sun_path);
    if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) ::_exit(3);
    char byte = 0;
    ::_exit(::read(fd, &byte, 1) == 0 ? 0 : 4);
  }
  CHECK(lab.supervisor.await_line(0, kWorker, "refused a connection to its socket from user id 65534", true));
  int status = 0;
  ::waitpid(stranger, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("an agent that loses its supervisor reconnects and sends a resync") {
  Lab lab;
  const auto path = lab.socket_path();
  lab.spawn("sleep 0.3; exit 9", WorkerId{4});
  WorkerSide worker(lab.io, path);
  worker.say(WorkerHello{limits::kProtocolVersion, kWorker, 1, "v"});
  worker.say(WorkerActive{2, 30});
  REQUIRE(lab.supervisor.await<FromWorker>(0, 2));
  REQUIRE(lab.supervisor.await<WorkerSpawned>(0, 2));
  lab.supervisor.stop_listening();
  lab.supervisor.agents[0]->connection->close();
  // Messages sent before the agent knows that the connection is lost are lost with it, so the worker repeats them.
  for (int i = 0; i < 20; ++i) {
    worker.say(WorkerNote{"accuracy", "0.97"});
    lab.supervisor.pump([] { return false; }, std::chrono::milliseconds(20));
  }
  lab.supervisor.open(lab.supervisor.port());
  REQUIRE(lab.supervisor.await<AgentHello>(1));
  REQUIRE(lab.supervisor.await<FromWorker>(1, 3));
  const auto answer = lab.supervisor.all<FromWorker>(1);
  CHECK(std::holds_alternative<WorkerHello>(answer[0].message));
  CHECK(std::get<WorkerActive>(answer[1].message).first_step == 30);
  CHECK(std::get<WorkerNote>(answer[2].message).value == "0.97");
  CHECK(lab.await_exit(WorkerId{4}, 1).exit_code == 9);
  lab.supervisor.send(1, StopAgent{1000});
  CHECK(lab.await_end());
}

TEST_CASE("an agent whose supervisor stays away stops its workers after the orphan grace") {
  Lab lab(700);
  lab.spawn("trap '' TERM; echo $$; while :; do sleep 0.05; done");
  REQUIRE(lab.supervisor.pump([&] { return !lab.supervisor.lines(0, kWorker).empty(); }));
  const pid_t worker = std::stoi(lab.supervisor.lines(0, kWorker)[0]);
  lab.supervisor.stop_listening();
  lab.supervisor.agents[0]->connection->close();
  REQUIRE(lab.await_end());
  CHECK(lab.end->status.exit_code == launcher::kAgentUnreachable);
  CHECK(contains(lab.end->error_text, "lost the supervisor"));
  CHECK(contains(lab.end->error_text, "cannot reach the supervisor"));
  CHECK_FALSE(is_running(worker));
  CHECK(entries(lab.directory.path) == 0);
}

TEST_CASE("malformed data from the supervisor ends the connection, not the agent") {
  Lab lab;
  lab.supervisor.agents[0]->connection->send(std::string("\x03\x00\x00\x00xyz", 7));
  CHECK(lab.supervisor.await<AgentHello>(1));
}

namespace {

CommandEnd run_bare_agent(const std::string& input) {
  asio::io_context io;
  std::optional<CommandEnd> end;
  CommandSpec spec{.argv = {TEST_AGENT, "agent"}};
  spec.input = input;
  auto command = Command::start(io, std::move(spec), nullptr, [&](CommandEnd e) { end = std::move(e); });
  REQUIRE(command.ok());
  io.run_for(kPatience);
  REQUIRE(end.has_value());
  return *end;
}

}  // namespace

TEST_CASE("an agent without a usable start message reports it and ends") {
  AgentBootstrap old;
  old.protocol_version = limits::kProtocolVersion + 1;
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "ended early"},
      {"GET / HTTP/1.0\r\n\r\n", "larger than"},
      {std::string("\x02\x00\x00\x00zz", 6), "malformed"},
      {std::string("\x20\x00\x00\x00zz", 6), "ended early"},
      {encode_frame(Bootstrap(old)), "the supervisor speaks protocol"}};
  for (const auto& [input, expected] : cases) {
    CAPTURE(expected);
    const auto end = run_bare_agent(input);
    CHECK(end.status.exit_code == launcher::kAgentFailed);
    CHECK(contains(end.error_text, expected));
  }
}

TEST_CASE("an agent that cannot reach its supervisor reports the addresses that it tried") {
  asio::io_context io;
  FakeSupervisor supervisor(io);
  supervisor.stop_listening();
  auto bootstrap = supervisor.bootstrap(AgentId{1});
  bootstrap.connect_timeout_ms = 500;
  const auto end = run_bare_agent(encode_frame(Bootstrap(bootstrap)));
  CHECK(end.status.exit_code == launcher::kAgentUnreachable);
  CHECK(contains(end.error_text, "cannot reach the supervisor at 127.0.0.1 port " + std::to_string(supervisor.port())));
}
