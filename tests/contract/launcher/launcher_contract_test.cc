// One suite for every launcher: local, ssh with a fake ssh that runs the remote command on this machine, a command with
// a fake kubectl, and the tools of batch systems with a fake one. mpirun and mpiexec are the real ones.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/stat.h>

#include <asio/io_context.hpp>
#include <sstream>

#include "fake_supervisor.h"
#include "launch_ends.h"
#include "launcher/agent/agent.h"
#include "launcher/batch/batch_launcher.h"
#include "launcher/batch/start_command.h"
#include "launcher/host_launchers.h"
#include "launcher/mpi/mpi_launchers.h"
#include "launcher/process/command.h"
#include "launcher/process/session_sweep.h"
#include "tests/skip.h"

using namespace elastictrain;
using namespace elastictrain::testing;
using launcher::AgentProgram;
using launcher::LaunchEnded;
using launcher::Launcher;
using launcher::SshOptions;

namespace {

std::string test_agent_build_id() {
  static const std::string id = [] {
    asio::io_context io;
    std::string output;
    auto command = launcher::Command::start(io, {.argv = {TEST_AGENT, "--build-id"}}, nullptr,
                                            [&](launcher::CommandEnd end) { output = end.output; });
    REQUIRE(command.ok());
    io.run();
    return output.substr(0, output.find('\n'));
  }();
  return id;
}

struct Lab {
  Lab() : supervisor(io) {
    ::signal(SIGPIPE, SIG_IGN);  // as the program does: an ssh that ends at once does not read its bootstrap
    ::setenv("XDG_RUNTIME_DIR", directory.path.c_str(), 1);
    ::setenv("FAKE_SSH_DIR", directory.path.c_str(), 1);
  }

  ~Lab() {
    for (std::uint32_t agent = 1; agent <= 8; ++agent) {
      if (launched) launched->forget(AgentId{agent});
    }
    CHECK(supervisor.pump([&] { return ends.size() >= expected; }));
    // Agents that outlive their ssh are stopped over their connection.
    for (std::size_t i = 0; i < supervisor.agents.size(); ++i) {
      if (!supervisor.agents[i]->closed) supervisor.send(i, StopAgent{100});
    }
    for (std::size_t i = 0; i < supervisor.agents.size(); ++i) {
      const auto hello = supervisor.all<AgentHello>(i);
      CHECK(supervisor.pump([&] { return hello.empty() || !is_running(static_cast<pid_t>(hello[0].pid)); }));
    }
  }

  launcher::LaunchSink sink() {
    return [this](LaunchEnded end) { ends.push_back(std::move(end)); };
  }

  bool use_local(const AgentProgram& program = {TEST_AGENT, test_agent_build_id()}) {
    launched = launcher::make_local_launcher(io, sink(), program);
    return true;
  }

  bool use_ssh(SshOptions options = {}, const AgentProgram& program = {TEST_AGENT, test_agent_build_id()}) {
    options.program = FAKE_SSH;
    auto made = launcher::make_ssh_launcher(io, options, sink(), program);
    REQUIRE(made.ok());
    launched = std::move(*made);
    return true;
  }

  bool use_command(launcher::CommandLaunchOptions options = {},
                   const AgentProgram& program = {TEST_AGENT, test_agent_build_id()}) {
    ::setenv("FAKE_KUBECTL_DIR", directory.path.c_str(), 1);
    options.command = {FAKE_KUBECTL, "exec", "-i", "{host}", "--"};
    auto made = launcher::make_command_launcher(io, options, sink(), program);
    REQUIRE(made.ok());
    launched = std::move(*made);
    return true;
  }

  bool use_batch(launcher::Scheduler scheduler) {
    const auto tool = directory.path + "/" + launcher::start_tool_of(scheduler);
    std::filesystem::create_symlink(FAKE_BATCH_TOOL, tool);
    ::setenv("PATH", (directory.path + ":/usr/bin:/bin").c_str(), 1);
    ::setenv("FAKE_BATCH_LOG", (directory.path + "/log").c_str(), 1);
    ::setenv("FAKE_BATCH_PROGRAM", TEST_AGENT, 1);
    launcher::Allocation job;
    job.scheduler = scheduler;
    job.hosts = {{"first", 1}, {"here", 1}};
    auto made = launcher::make_batch_launcher(io, job, {}, sink(), {TEST_AGENT, test_agent_build_id()});
    REQUIRE(made.ok());
    launched = std::move(*made);
    return true;
  }

  // False if the command does not exist here.
  bool use_mpi(const std::string& command) {
    if (!launcher::is_in_path(command)) {
      tests::skip_aloud("there is no " + command + " here");
      return false;
    }
    auto tool = launcher::ask_mpi_tool({command});
    REQUIRE(tool.ok());
    launched = launcher::make_mpi_launcher(io, {*tool, {::geteuid() == 0, false}}, sink(),
                                           {TEST_AGENT, test_agent_build_id()});
    usual_host = "localhost";
    return true;
  }

  void launch(std::uint32_t agent) { launch(agent, usual_host); }

  void launch(std::uint32_t agent, const std::string& host) {
    ++expected;
    auto bootstrap = supervisor.bootstrap(AgentId{agent});
    bootstrap.host = host;
    launched->launch({AgentId{agent}, host, std::move(bootstrap)});
  }

  // On whichever connection: an agent that heard nothing while the test was busy has connected once more.
  bool await_agent(std::uint32_t agent) {
    return supervisor.pump([&] {
      for (std::size_t i = 0; i < supervisor.agents.size(); ++i) {
        for (const auto& hello : supervisor.all<AgentHello>(i)) {
          if (hello.agent == AgentId{agent}) return true;
        }
      }
      return false;
    });
  }

  LaunchEnded await_end(std::uint32_t agent) { return await_launch_end(supervisor, ends, AgentId{agent}); }

  std::size_t hosts_tried() const {
    std::ifstream file(directory.path + "/log");
    std::size_t count = 0;
    for (std::string line; std::getline(file, line);) ++count;
    return count;
  }

  TemporaryDirectory directory;
  asio::io_context io;
  FakeSupervisor supervisor;
  std::unique_ptr<Launcher> launched;
  std::vector<LaunchEnded> ends;
  std::size_t expected = 0;
  std::string usual_host = "here";
};

struct Local {
  static bool use(Lab& lab) { return lab.use_local(); }
};
struct Ssh {
  static bool use(Lab& lab) { return lab.use_ssh(); }
};
struct Kubectl {
  static bool use(Lab& lab) { return lab.use_command(); }
};
struct Srun {
  static bool use(Lab& lab) { return lab.use_batch(launcher::Scheduler::kSlurm); }
};
struct Blaunch {
  static bool use(Lab& lab) { return lab.use_batch(launcher::Scheduler::kLsf); }
};
struct Qrsh {
  static bool use(Lab& lab) { return lab.use_batch(launcher::Scheduler::kSge); }
};
struct FluxExec {
  static bool use(Lab& lab) { return lab.use_batch(launcher::Scheduler::kFlux); }
};

struct OpenMpi {
  static bool use(Lab& lab) { return lab.use_mpi("mpirun.openmpi"); }
};
struct Mpich {
  static bool use(Lab& lab) { return lab.use_mpi("mpiexec.hydra"); }
};

std::string read_all(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;  // in one read: in a build with a sanitizer, reading a binary by character takes seconds
  content << file.rdbuf();
  return content.str();
}

}  // namespace

TEST_CASE_TEMPLATE("an agent is launched, serves, and its end is reported once", Way, Local, Ssh, Kubectl, Srun,
                   Blaunch, Qrsh, FluxExec, OpenMpi, Mpich) {
  Lab lab;
  if (!Way::use(lab)) return;
  lab.launch(1);
  CHECK(lab.ends.empty());
  REQUIRE(lab.supervisor.await<AgentHello>(0));
  CHECK(lab.supervisor.all<AgentHello>(0)[0].agent == AgentId{1});
  lab.supervisor.send(0, StopAgent{100});
  const auto end = lab.await_end(1);
  CHECK(end.launched);
  CHECK(end.exit_code == 0);
  CHECK(end.signal == 0);
  CHECK(lab.ends.size() == 1);
}

TEST_CASE_TEMPLATE("a forgotten launch leaves no process on this machine", Way, Local, Ssh, Kubectl, Srun, Blaunch,
                   Qrsh, FluxExec, OpenMpi, Mpich) {
  Lab lab;
  if (!Way::use(lab)) return;
  lab.launch(1);
  REQUIRE(lab.supervisor.await<AgentHello>(0));
  const auto agent = static_cast<pid_t>(lab.supervisor.all<AgentHello>(0)[0].pid);
  lab.supervisor.send(0, SpawnWorker{WorkerId{1}, 0, {"sh", "-c", "trap '' TERM; echo $$; sleep 1000"}, {}, ""});
  REQUIRE(lab.supervisor.pump([&] { return !lab.supervisor.lines(0, WorkerId{1}).empty(); }));
  const pid_t worker = std::stoi(lab.supervisor.lines(0, WorkerId{1})[0]);
  lab.launched->forget(AgentId{1});
  lab.await_end(1);
  // Agents beyond the tool's reach are stopped over their connection.
  if (lab.launched->capabilities().reaches_other_hosts) lab.supervisor.send(0, StopAgent{0});
  CHECK(lab.supervisor.pump([&] { return !is_running(agent) && !is_running(worker); }));
}

TEST_CASE_TEMPLATE("an agent outlives the MPI launch that started it", Way, OpenMpi, Mpich) {
  Lab lab;
  if (!Way::use(lab)) return;
  lab.launch(1);
  REQUIRE(lab.supervisor.await<AgentHello>(0));
  lab.launched->forget(AgentId{1});
  lab.await_end(1);
  lab.supervisor.send(0, SpawnWorker{WorkerId{1}, 0, {"sh", "-c", "echo up; sleep 1000"}, {}, ""});
  CHECK(lab.supervisor.await_line(0, WorkerId{1}, "up"));
  lab.supervisor.send(0, StopAgent{0});
  const auto agent = static_cast<pid_t>(lab.supervisor.all<AgentHello>(0)[0].pid);
  CHECK(lab.supervisor.pump([&] { return !is_running(agent); }));
}

TEST_CASE_TEMPLATE("forgetting twice, or what was never launched, does nothing", Way, Local, Ssh, Kubectl, Srun,
                   Blaunch, Qrsh, FluxExec, OpenMpi, Mpich) {
  Lab lab;
  if (!Way::use(lab)) return;
  lab.launched->forget(AgentId{9});
  lab.launch(1);
  lab.launched->forget(AgentId{1});
  lab.launched->forget(AgentId{1});
  const auto end = lab.await_end(1);
  CHECK_FALSE(end.launched);
  CHECK(contains(end.message, "stopped on request"));
}

TEST_CASE_TEMPLATE("the run's key is in no command line and no environment", Way, Local, Ssh, Kubectl, Srun, Blaunch,
                   Qrsh, FluxExec, OpenMpi, Mpich) {
  Lab lab;
  if (!Way::use(lab)) return;
  lab.launch(1);
  REQUIRE(lab.supervisor.await<AgentHello>(0));
  lab.supervisor.send(0, SpawnWorker{WorkerId{1}, 0, {"sh", "-c", "echo up; sleep 1000"}, {}, ""});
  REQUIRE(lab.supervisor.await_line(0, WorkerId{1}, "up"));
  const auto& key = lab.supervisor.key();
  const std::string raw(key.begin(), key.begin() + 8);
  std::ostringstream hex;
  for (int i = 0; i < 8; ++i)
    hex << std::hex << (key[static_cast<std::size_t>(i)] >> 4) << (key[static_cast<std::size_t>(i)] & 15);
  const auto ours = launcher::descendants(::getpid());
  CHECK(ours.size() >= 2);
  for (const pid_t pid : ours) {
    for (const char* name : {"cmdline", "environ"}) {
      const std::string path = "/proc/" + std::to_string(pid) + "/" + name;
      // A process that keeps its memory to itself shows its environment to root only.
      const bool is_hidden = ::geteuid() != 0 && ::access(path.c_str(), R_OK) != 0;
      const auto text = read_all(path);
      CHECK(text.empty() == is_hidden);
      CHECK_FALSE(contains(text, raw));
      CHECK_FALSE(contains(text, hex.str()));
    }
  }
}

TEST_CASE_TEMPLATE("an agent that exits is reported with its signal or status", Way, Local, Ssh, Srun) {
  Lab lab;
  if (!Way::use(lab)) return;
  lab.launch(1);
  REQUIRE(lab.supervisor.await<AgentHello>(0));
  ::kill(static_cast<pid_t>(lab.supervisor.all<AgentHello>(0)[0].pid), SIGKILL);
  const auto end = lab.await_end(1);
  CHECK(end.launched);
  CHECK(end.agent_ended);
  CHECK(end.signal == SIGKILL);
  CHECK(contains(end.message, "signal 9"));
}

TEST_CASE_TEMPLATE("an agent that ends in peace is reported as ended", Way, Local, Ssh, Kubectl, Srun, Blaunch, Qrsh,
                   FluxExec, OpenMpi, Mpich) {
  Lab lab;
  if (!Way::use(lab)) return;
  lab.launch(1);
  REQUIRE(lab.supervisor.await<AgentHello>(0));
  lab.supervisor.send(0, StopAgent{100});
  CHECK(lab.await_end(1).agent_ended);
}

TEST_CASE("an ssh whose connection breaks does not say that its agent has ended") {
  Lab lab;
  lab.use_ssh();
  lab.launch(1, "breaks1");
  REQUIRE(lab.supervisor.await<AgentHello>(0));
  std::ofstream(lab.directory.path + "/break") << "";
  const auto end = lab.await_end(1);
  CHECK(end.launched);
  CHECK(end.exit_code == 255);
  CHECK_FALSE(end.agent_ended);
  CHECK(contains(end.message, "closed by remote host"));
  lab.supervisor.send(0, SpawnWorker{WorkerId{1}, 0, {"sh", "-c", "echo up; sleep 1000"}, {}, ""});
  CHECK(lab.supervisor.await_line(0, WorkerId{1}, "up"));
}

TEST_CASE("a failed local launch is reported with the agent's output") {
  Lab lab;
  lab.use_local();
  lab.supervisor.stop_listening();
  lab.launch(1);
  const auto end = lab.await_end(1);
  CHECK_FALSE(end.launched);
  CHECK(end.exit_code == launcher::kAgentUnreachable);
  CHECK(contains(end.message, "cannot reach the supervisor at 127.0.0.1"));
}

TEST_CASE("a missing local binary is a failed launch, not a crash") {
  Lab lab;
  lab.use_local({"/nonexistent/elastictrain", "x"});
  lab.launch(1);
  const auto end = lab.await_end(1);
  CHECK_FALSE(end.launched);
  CHECK(contains(end.message, "/nonexistent/elastictrain"));
  CHECK(lab.launched->command_line("h") == std::vector<std::string>{"/nonexistent/elastictrain", "agent"});
}

TEST_CASE("a batch tool whose exit statuses are not known does not say that its agent has ended") {
  Lab lab;
  Blaunch::use(lab);
  lab.launch(1);
  REQUIRE(lab.supervisor.await<AgentHello>(0));
  ::kill(static_cast<pid_t>(lab.supervisor.all<AgentHello>(0)[0].pid), SIGKILL);
  const auto end = lab.await_end(1);
  CHECK(end.launched);
  CHECK_FALSE(end.agent_ended);
}

TEST_CASE("a host that srun refuses is reported with srun's output, which is not taken for the agent's") {
  Lab lab;
  Srun::use(lab);
  lab.launch(1, "denied1");
  const auto end = lab.await_end(1);
  CHECK_FALSE(end.launched);
  CHECK_FALSE(end.agent_ended);
  CHECK(end.exit_code == 255);
  CHECK(contains(end.message, "srun ended with exit status 255"));
  CHECK(contains(end.message, "Requested node configuration is not available"));
}

TEST_CASE("every batch tool gets one host, and runs only the agent there") {
  using launcher::Scheduler;
  launcher::Allocation job;
  job.hosts = {{"a", 1}, {"b", 2}};
  job.job_id = "f42";
  const auto line = [&](Scheduler scheduler) {
    job.scheduler = scheduler;
    std::string text;
    for (const auto& word : launcher::batch_start_command(job, "b", "", "/bin/elastictrain")) text += word + " ";
    return text;
  };
  CHECK(line(Scheduler::kSlurm) ==
        "srun --nodes=1 --ntasks=1 --nodelist=b --overlap --mem=0 --mpi=none --cpu-bind=none --wait=0 "
        "--kill-on-bad-exit=0 --quiet --job-name=elastictrain /bin/elastictrain agent ");
  job.scheduler = Scheduler::kSlurm;
  const auto elsewhere = launcher::batch_start_command(job, "c", "43", "/bin/elastictrain");
  CHECK(elsewhere[elsewhere.size() - 3] == "--jobid=43");
  CHECK(line(Scheduler::kLsf) == "blaunch b /bin/elastictrain agent ");
  CHECK(line(Scheduler::kSge) == "qrsh -inherit b /bin/elastictrain agent ");
  CHECK(line(Scheduler::kFlux) == "flux exec --rank=1 /bin/elastictrain agent ");
  job.within_task = true;
  CHECK(line(Scheduler::kFlux) == "flux exec --rank=1 --jobid=f42 /bin/elastictrain agent ");
}

TEST_CASE("a host that the command does not find is reported with the command's output") {
  Lab lab;
  lab.use_command();
  lab.launch(1, "gone1");
  const auto end = lab.await_end(1);
  CHECK_FALSE(end.launched);
  CHECK_FALSE(end.agent_ended);
  CHECK(end.exit_code == 1);
  CHECK(contains(end.message, "pods \"gone1\" not found"));
}

TEST_CASE("a host that hangs behind the command is given up after the start timeout") {
  Lab lab;
  launcher::CommandLaunchOptions options;
  options.start_timeout_ms = 300;
  lab.use_command(options);
  lab.launch(1, "hang1");
  CHECK(contains(lab.await_end(1).message, "fake_kubectl.sh did not finish in time"));
}

TEST_CASE(
    "an agent that was started by a command outlives it, and its end by a signal is not told from the command's") {
  Lab lab;
  lab.use_command();
  lab.launch(1);
  REQUIRE(lab.supervisor.await<AgentHello>(0));
  lab.launched->forget(AgentId{1});
  CHECK_FALSE(lab.await_end(1).agent_ended);
  lab.supervisor.send(0, SpawnWorker{WorkerId{1}, 0, {"sh", "-c", "echo up; sleep 1000"}, {}, ""});
  CHECK(lab.supervisor.await_line(0, WorkerId{1}, "up"));
}

TEST_CASE("a host that a command reaches gets the binary once") {
  Lab lab;
  const TemporaryDirectory source;
  const auto path = source.path + "/elastictrain";
  std::filesystem::copy_file(TEST_AGENT, path);
  std::filesystem::permissions(path, std::filesystem::perms(0600));
  lab.use_command({}, {path, test_agent_build_id()});
  lab.launch(1, "bare");
  REQUIRE(lab.supervisor.await<AgentHello>(0));
  CHECK(lab.hosts_tried() == 3);
  const auto copy = lab.directory.path + "/pods/bare/.cache/elastictrain/" + test_agent_build_id() + "/elastictrain";
  CHECK(read_all(copy) == read_all(TEST_AGENT));
  lab.launch(2, "bare");
  REQUIRE(lab.await_agent(2));
  CHECK(lab.hosts_tried() == 4);
}

TEST_CASE("without the binary on a host that a command reaches the message gives the remedy") {
  Lab lab;
  launcher::CommandLaunchOptions options;
  options.copy_binary = false;
  lab.use_command(options, {TEST_AGENT, "0.1.0-0123456789abcdef"});
  lab.launch(1);
  const auto end = lab.await_end(1);
  CHECK(end.exit_code == launcher::kNoBinaryStatus);
  CHECK(contains(end.message, "there is no elastictrain 0.1.0-0123456789abcdef at " TEST_AGENT));
}

TEST_CASE("a command gets the host's name wherever it asks for it, and must ask for it") {
  CHECK(launcher::command_for({"x", "{host}", "--on={host}:{host}", "{hos"}, "{host}a") ==
        std::vector<std::string>{"x", "{host}a", "--on={host}a:{host}a", "{hos"});
  asio::io_context io;
  for (const std::vector<std::string>& command : {std::vector<std::string>{}, std::vector<std::string>{"", "{host}"},
                                                  std::vector<std::string>{"kubectl", "exec"}}) {
    CHECK_FALSE(launcher::make_command_launcher(io, {.command = command}, [](LaunchEnded) {}).ok());
  }
}

TEST_CASE("nothing is started for a host whose name would be an option or more than a word") {
  Lab lab;
  SUBCASE("a command") {
    lab.use_command();
  }
  SUBCASE("ssh") {
    lab.use_ssh();
  }
  SUBCASE("a batch system") {
    lab.use_batch(launcher::Scheduler::kSlurm);
  }
  lab.launch(1, "--kubeconfig=/tmp/x");
  const auto end = lab.await_end(1);
  CHECK_FALSE(end.launched);
  CHECK(end.exit_code == 127);
  CHECK(end.message == "\"--kubeconfig=/tmp/x\" is not a host name: nothing was started");
}

TEST_CASE("PBS has no tool that carries an agent's streams") {
  asio::io_context io;
  launcher::Allocation job;
  job.scheduler = launcher::Scheduler::kPbs;
  const auto made = launcher::make_batch_launcher(io, job, {}, [](LaunchEnded) {});
  REQUIRE_FALSE(made.ok());
  CHECK(contains(made.error().message, "launcher.kind = \"ssh\""));
}

TEST_CASE("a host that refuses is reported with ssh's output") {
  Lab lab;
  lab.use_ssh();
  lab.launch(1, "denied1");
  const auto end = lab.await_end(1);
  CHECK_FALSE(end.launched);
  CHECK(end.exit_code == 255);
  CHECK(contains(end.message, "ssh ended with exit status 255"));
  CHECK(contains(end.message, "Permission denied (publickey)"));
}

TEST_CASE("where a login shell starts nothing and says so on standard output, it is told how to see it") {
  Lab lab;
  lab.use_ssh();
  lab.launch(1, "nologin1");
  CHECK(lab.await_end(1).message ==
        "ssh ended with exit status 1; to see what it wrote to standard output, log in there by hand");
}

TEST_CASE("a login shell that repeats its input, which holds the run's key, is not quoted") {
  Lab lab;
  lab.use_ssh();
  lab.launch(1, "menu1");
  const auto message = lab.await_end(1).message;
  CHECK(contains(message, "ssh ended with exit status 3"));
  CHECK_FALSE(contains(message, "no such choice"));
}

TEST_CASE("a home in which nothing may be executed is not taken for a refused login") {
  Lab lab;
  const TemporaryDirectory source;
  source.write("elastictrain", "not executable here, so that it is copied");
  lab.use_ssh({}, {source.path + "/elastictrain", test_agent_build_id()});
  lab.launch(1, "sealed1");
  CHECK(lab.await_end(1).message ==
        "copying elastictrain there: ssh ended with exit status 1: new.1: Permission denied");
}

TEST_CASE("a host that hangs is given up after the start timeout, whatever ssh makes of TERM") {
  Lab lab;
  SshOptions options;
  options.start_timeout_ms = 300;
  lab.use_ssh(options);
  lab.launch(1, "hang1");
  lab.launch(2, "deaf1");
  const auto hang = lab.await_end(1);
  CHECK_FALSE(hang.launched);
  CHECK(contains(hang.message, "ssh did not finish in time: still trying"));
  CHECK(lab.await_end(2).signal == SIGKILL);
}

TEST_CASE("what a host prints at login does no harm") {
  Lab lab;
  lab.use_ssh();
  lab.launch(1, "chatty1");
  REQUIRE(lab.supervisor.await<AgentHello>(0));
  lab.supervisor.send(0, StopAgent{100});
  CHECK(lab.await_end(1).launched);
}

TEST_CASE("a host without the binary gets it once, private and whole, and the next launch finds it") {
  Lab lab;
  const TemporaryDirectory source;
  const auto path = source.path + "/elastictrain";
  std::filesystem::copy_file(TEST_AGENT, path);
  std::filesystem::permissions(path, std::filesystem::perms(0600));
  lab.use_ssh({}, {path, test_agent_build_id()});
  lab.launch(1, "bare");
  REQUIRE(lab.supervisor.await<AgentHello>(0));
  CHECK(lab.hosts_tried() == 3);
  const auto copy = lab.directory.path + "/bare/.cache/elastictrain/" + test_agent_build_id() + "/elastictrain";
  struct stat info {};
  REQUIRE(::stat(copy.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0700);
  CHECK(read_all(copy) == read_all(TEST_AGENT));
  lab.launch(2, "bare");
  REQUIRE(lab.await_agent(2));
  CHECK(lab.hosts_tried() == 4);
}

TEST_CASE("a copy that breaks off is not kept and the host is reported") {
  Lab lab;
  const TemporaryDirectory source;
  const auto path = source.path + "/elastictrain";
  std::filesystem::copy_file(TEST_AGENT, path);
  std::filesystem::permissions(path, std::filesystem::perms(0600));
  lab.use_ssh({}, {path, test_agent_build_id()});
  lab.launch(1, "cut1");
  const auto end = lab.await_end(1);
  CHECK_FALSE(end.launched);
  CHECK(contains(end.message, "copying elastictrain there: "));
  CHECK(contains(end.message, "did not arrive whole"));
  CHECK(std::filesystem::is_empty(lab.directory.path + "/cut1/.cache/elastictrain/" + test_agent_build_id()));
}

TEST_CASE("another build on the host counts as missing, and without copying the message gives the remedy") {
  Lab lab;
  SshOptions options;
  options.copy_binary = false;
  lab.use_ssh(options, {TEST_AGENT, "0.1.0-0123456789abcdef"});
  CHECK_FALSE(lab.launched->capabilities().copies_binary);
  lab.launch(1, "old");
  const auto end = lab.await_end(1);
  CHECK_FALSE(end.launched);
  CHECK(end.exit_code == launcher::kNoBinaryStatus);
  CHECK(contains(end.message, "there is no elastictrain 0.1.0-0123456789abcdef at " TEST_AGENT));
  CHECK(contains(end.message, "copy_binary"));
  CHECK(lab.hosts_tried() == 1);
}

TEST_CASE("no more hosts start at the same time than the parallelism allows") {
  Lab lab;
  SshOptions options;
  options.parallelism = 2;
  lab.use_ssh(options);
  for (std::uint32_t agent = 1; agent <= 5; ++agent) lab.launch(agent, "gate" + std::to_string(agent));
  REQUIRE(lab.supervisor.pump([&] { return lab.hosts_tried() == 2; }));
  CHECK_FALSE(lab.supervisor.pump([&] { return lab.hosts_tried() > 2; }, std::chrono::milliseconds(300)));
  lab.launched->forget(AgentId{5});
  CHECK(contains(lab.await_end(5).message, "before it was started"));
  std::ofstream(lab.directory.path + "/gate") << "";
  REQUIRE(lab.supervisor.pump([&] { return lab.supervisor.agents.size() == 4; }));
  CHECK(lab.hosts_tried() == 4);
}

TEST_CASE("one host that fails does not hold the others up") {
  Lab lab;
  SshOptions options;
  options.parallelism = 1;
  lab.use_ssh(options);
  lab.launch(1, "denied1");
  lab.launch(2, "good");
  CHECK_FALSE(lab.await_end(1).launched);
  REQUIRE(lab.supervisor.await<AgentHello>(0));
  CHECK(lab.supervisor.all<AgentHello>(0)[0].agent == AgentId{2});
}

TEST_CASE("a host whose name service hangs does not keep others from starting, and its message gives the remedy") {
  Lab lab;
  SshOptions options;
  options.parallelism = 1;
  options.connect_timeout_ms = 100;
  options.start_timeout_ms = 2'000;
  lab.use_ssh(options);
  lab.launch(1, "mute1");
  lab.launch(2, "good");
  REQUIRE(lab.supervisor.await<AgentHello>(0));
  CHECK(lab.supervisor.all<AgentHello>(0)[0].agent == AgentId{2});
  CHECK(lab.ends.empty());
  const auto end = lab.await_end(1);
  CHECK_FALSE(end.launched);
  CHECK(contains(end.message, "ssh did not finish in time: the name service"));
}

TEST_CASE("an agent outlives its ssh and is stopped over its connection") {
  Lab lab;
  lab.use_ssh();
  lab.launch(1, "apart1");
  REQUIRE(lab.supervisor.await<AgentHello>(0));
  lab.launched->forget(AgentId{1});
  CHECK(lab.await_end(1).launched);
  lab.supervisor.send(0, SpawnWorker{WorkerId{1}, 0, {"sh", "-c", "echo up; sleep 1000"}, {}, ""});
  REQUIRE(lab.supervisor.await_line(0, WorkerId{1}, "up"));
  lab.supervisor.send(0, StopAgent{100});
  CHECK(lab.supervisor.await<WorkerExited>(0));
}

TEST_CASE("an agent that is killed on a far host leaves nothing there, not even what ignores TERM") {
  Lab lab;
  lab.use_ssh();
  lab.launch(1, "apart1");
  REQUIRE(lab.supervisor.await<AgentHello>(0));
  lab.supervisor.send(0, SpawnWorker{WorkerId{1}, 0, {"sh", "-c", "trap '' TERM; sleep 1000 & echo $!; wait"}, {}, ""});
  REQUIRE(lab.supervisor.pump([&] { return !lab.supervisor.lines(0, WorkerId{1}).empty(); }));
  const pid_t grandchild = std::stoi(lab.supervisor.lines(0, WorkerId{1})[0]);
  const auto worker = static_cast<pid_t>(lab.supervisor.all<WorkerSpawned>(0)[0].pid);
  ::kill(static_cast<pid_t>(lab.supervisor.all<AgentHello>(0)[0].pid), SIGKILL);
  CHECK(lab.supervisor.pump([&] { return !is_running(worker) && !is_running(grandchild); }));
}

TEST_CASE("ssh options that cannot work are refused before anything is run") {
  asio::io_context io;
  SshOptions options;
  options.user = "-oProxyCommand=x";
  CHECK_FALSE(launcher::make_ssh_launcher(io, options, [](LaunchEnded) {}).ok());
}
