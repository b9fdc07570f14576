// Purpose: measures the cost of a supervisor. Simulated agents in a process of their own connect over real TLS on
// loopback. Each reports its workers, all changed, four times per second. Prints one JSON object: the supervisor
// process's share of one core over the measured time, and the median of five `status` requests.
//
//   agents_bench [agents] [workers per agent] [seconds]      (1000 8 10)
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/error_code.hpp>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "supervisor/control/control_client.h"
#include "supervisor/protocol/codec.h"
#include "supervisor/protocol/limits.h"
#include "supervisor/supervisor.h"
#include "tests/unit/supervisor/fake_agent.h"

namespace elastictrain {
namespace {

using Clock = std::chrono::steady_clock;

struct BenchOptions {
  std::uint32_t agents = 1000;
  std::uint32_t workers = 8;
  int seconds = 10;
};

// The child: starts an agent for every bootstrap that arrives over the pipe, until the pipe closes.
class Swarm {
 public:
  Swarm(asio::io_context& io, int pipe) : io_(io), pipe_(io, pipe), reader_(limits::kMaxBootstrapBytes) {}

  void read() {
    pipe_.async_read_some(asio::buffer(chunk_), [this](asio::error_code error, std::size_t length) {
      if (error || !reader_.feed({chunk_.data(), length}).ok()) return io_.stop();
      while (auto body = reader_.next()) start(*body);
      read();
    });
  }

 private:
  void start(const std::string& body) {
    auto bootstrap = protocol::decode_body<protocol::Bootstrap>(body);
    if (!bootstrap.ok()) return io_.stop();
    auto agent = std::make_shared<testing::FakeAgent>(io_, std::get<protocol::AgentBootstrap>(*bootstrap),
                                                      testing::FakeBehaviour{}, [](const std::string&) {});
    // Start times are spread over the period, as those of independent agents are.
    const auto delay = std::chrono::microseconds(250'000 / 1000 * (started_++ % 1000));
    auto timer = std::make_shared<asio::steady_timer>(io_, delay);
    timer->async_wait([agent, timer](asio::error_code) { agent->start(); });
  }

  asio::io_context& io_;
  asio::posix::stream_descriptor pipe_;
  protocol::FrameReader reader_;
  std::array<char, 65536> chunk_{};
  int started_ = 0;
};

int simulate(int pipe) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  asio::io_context io;
  Swarm swarm(io, pipe);
  swarm.read();
  io.run();
  return 0;
}

class PipeLauncher final : public launcher::Launcher {
 public:
  PipeLauncher(asio::io_context& io, int pipe) : io_(io), pipe_(pipe) {}

  launcher::Capabilities capabilities() const override { return {"pipe", false, false}; }
  std::vector<std::string> command_line(const std::string&) const override { return {}; }
  void launch(launcher::AgentSpec spec) override {
    const std::string frame = protocol::encode_frame(protocol::Bootstrap(spec.bootstrap));
    for (std::size_t done = 0; done < frame.size();) {
      const ssize_t count = ::write(pipe_, frame.data() + done, frame.size() - done);
      if (count <= 0) std::abort();
      done += static_cast<std::size_t>(count);
    }
  }
  void forget(AgentId agent) override {
    asio::post(io_, [this, agent] { supervisor->launch_ended({agent, true, 0, 0, ""}); });
  }
  Supervisor* supervisor = nullptr;

 private:
  asio::io_context& io_;
  int pipe_;
};

class ManyHosts final : public launcher::HostSource {
 public:
  ManyHosts(asio::io_context& io, const BenchOptions& options) : io_(io) {
    for (std::uint32_t i = 0; i < options.agents; ++i) hosts_.push_back({"host" + std::to_string(i), options.workers});
  }
  void poll(std::function<void(Result<std::vector<launcher::Host>>)> done) override {
    asio::post(io_, [this, done] { done(hosts_); });
  }
  std::uint64_t interval_ms() const override { return 0; }

 private:
  asio::io_context& io_;
  std::vector<launcher::Host> hosts_;
};

double cpu_seconds() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

struct Measured {
  bool reached = false;
  double start_s = 0;
  double cpu_share = 0;
  std::vector<double> status_ms;
  std::size_t status_bytes = 0;
};

double ask_status(const std::string& directory, Measured& measured) {
  const auto begin = Clock::now();
  const auto answer = control::ask(directory, R"({"command":"status"})", Millis(60'000));
  if (answer.ok()) measured.status_bytes = answer->size();
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

bool runs_at(const std::string& directory, std::uint32_t size) {
  const auto answer = control::ask(directory, R"({"command":"status"})", Millis(60'000));
  return answer.ok() && answer->find("\"phase\":\"running\"") != std::string::npos &&
         answer->find("\"world_size\":" + std::to_string(size) + ",") != std::string::npos;
}

void measure(const std::string& directory, const BenchOptions& options, Measured& measured) {
  const auto begin = Clock::now();
  while (!measured.reached && Clock::now() - begin < std::chrono::minutes(4)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    measured.reached = runs_at(directory, options.agents * options.workers);
  }
  measured.start_s = std::chrono::duration<double>(Clock::now() - begin).count();
  std::this_thread::sleep_for(std::chrono::seconds(2));
  const double cpu_before = cpu_seconds();
  const auto wall_before = Clock::now();
  std::this_thread::sleep_for(std::chrono::seconds(options.seconds));
  measured.cpu_share = (cpu_seconds() - cpu_before) / std::chrono::duration<double>(Clock::now() - wall_before).count();
  for (int i = 0; i < 5; ++i) measured.status_ms.push_back(ask_status(directory, measured));
  std::sort(measured.status_ms.begin(), measured.status_ms.end());
  (void)control::ask(directory, R"({"command":"stop","now":true})", Millis(60'000));
}

SupervisorOptions run_options(const BenchOptions& options, const std::string& root) {
  SupervisorOptions run;
  run.run_directory = root + "/bench";
  run.settings.run_name = "bench";
  const std::uint32_t world = options.agents * options.workers;
  run.settings.min_workers = run.settings.start_workers = run.settings.max_workers = world;
  run.settings.start_timeout = run.settings.ready_timeout = Millis(200'000);
  run.settings.prepare_timeout = Millis(200'000);
  run.settings.grace = Millis(5'000);
  run.agent_connect_timeout_ms = 60'000;
  run.program.argv = {"train"};
  run.on_tell = [](core::Tell::Level, const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); };
  return run;
}

void print(const BenchOptions& options, const Measured& measured) {
  const double status_ms = measured.status_ms[measured.status_ms.size() / 2];
  std::printf(
      "{\"agents\":%u,\"workers\":%u,\"reached\":%s,\"start_s\":%.2f,\"seconds\":%d,\"supervisor_cpu_percent\":%.2f,"
      "\"status_ms_median\":%.2f,\"status_bytes\":%zu}\n",
      options.agents, options.agents * options.workers, measured.reached ? "true" : "false", measured.start_s,
      options.seconds, 100 * measured.cpu_share, status_ms, measured.status_bytes);
}

int supervise(const BenchOptions& options, int pipe) {
  char name[] = "/tmp/elastictrain-bench-XXXXXX";
  const std::string root = ::mkdtemp(name);
  Measured measured;
  {
    asio::io_context io;
    PipeLauncher launcher(io, pipe);
    ManyHosts hosts(io, options);
    const SupervisorOptions run = run_options(options, root);
    Supervisor supervisor(io, run, launcher, hosts);
    launcher.supervisor = &supervisor;
    if (const Status opened = supervisor.open(); !opened.ok()) {
      std::fprintf(stderr, "%s\n", opened.error().message.c_str());
      return 1;
    }
    std::thread user([&] { measure(run.run_directory, options, measured); });
    supervisor.run();
    user.join();
  }
  std::filesystem::remove_all(root);
  print(options, measured);
  return measured.reached ? 0 : 1;
}

}  // namespace
}  // namespace elastictrain

int main(int argc, char** argv) {
  elastictrain::BenchOptions options;
  if (argc > 1) options.agents = static_cast<std::uint32_t>(std::atoi(argv[1]));
  if (argc > 2) options.workers = static_cast<std::uint32_t>(std::atoi(argv[2]));
  if (argc > 3) options.seconds = std::atoi(argv[3]);
  int pipe[2];
  if (::pipe(pipe) != 0) return 1;
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(pipe[1]);
    return elastictrain::simulate(pipe[0]);
  }
  ::close(pipe[0]);
  const int status = elastictrain::supervise(options, pipe[1]);
  ::close(pipe[1]);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return status;
}
