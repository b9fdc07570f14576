// The live supervisor against agents that speak the real protocol: see fake_agent.h.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <asio/io_context.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "supervisor/control/control_client.h"
#include "supervisor/control/control_protocol.h"
#include "supervisor/protocol/codec.h"
#include "supervisor/run_directory.h"
#include "supervisor/supervisor.h"
#include "supervisor/timers.h"
#include "supervisor/transport/local_socket.h"
#include "tests/slowdown.h"
#include "tests/unit/supervisor/scene.h"

namespace elastictrain {
namespace {

using std::chrono::milliseconds;
using testing::FakeBehaviour;
using testing::Json;
using testing::Scene;

TEST_CASE("a run starts, grows and shrinks by the control socket, and stops without leaving anything behind") {
  Scene scene;
  REQUIRE(scene.open().ok());
  Json started, grown, shrunk, refused, stopped;
  const int status = scene.run([&] {
    started = scene.settled_at(2);
    refused = scene.ask(R"({"command":"resize","workers":400})");
    scene.ask(R"({"command":"resize","workers":4})");
    grown = scene.settled_at(4);
    scene.ask(R"({"command":"resize","workers":2})");
    shrunk = scene.settled_at(2);
    stopped = scene.ask(R"({"command":"stop"})");
    while (control::is_live(scene.options.run_directory)) std::this_thread::sleep_for(milliseconds(5));
  });
  INFO(scene.reported);
  REQUIRE(!started.is_null());
  REQUIRE(!grown.is_null());
  REQUIRE(!shrunk.is_null());
  CHECK(grown["generation"].get<int>() > started["generation"].get<int>());
  CHECK(refused["ok"] == false);
  CHECK(stopped["ok"] == true);
  CHECK(status == 0);
  CHECK(!std::filesystem::exists(scene.options.run_directory + "/control.sock"));
  CHECK(scene.launcher.over.size() == 2);
  CHECK(scene.journal_has("run_opened"));
  CHECK(scene.journal_has("run_closed"));
}

TEST_CASE("status has every field of its schema, with the workers' own numbers") {
  Scene scene;
  REQUIRE(scene.open().ok());
  Json status;
  scene.run([&] {
    status = scene.status_when([](const Json& s) {
      return s["workers"].size() == 2 && s["workers"][0]["step"].get<int>() > 0 && s["workers"][0]["pid"] != 0;
    });
  });
  REQUIRE(!status.is_null());
  for (const char* name : {"name",
                           "phase",
                           "generation",
                           "world_size",
                           "target_size",
                           "global_batch",
                           "learning_rate_factor",
                           "size_reason",
                           "last_change",
                           "uptime_s",
                           "epoch",
                           "epoch_fraction",
                           "step",
                           "loss",
                           "samples_per_s",
                           "idle_s",
                           "last_idle_s",
                           "journal",
                           "workers",
                           "hosts"}) {
    CHECK_MESSAGE(status.contains(name), name);
  }
  for (const char* name :
       {"id", "rank", "host", "slot", "phase", "generation", "step", "step_ms", "compute_ms", "data_wait_ms",
        "communicate_ms", "update_ms", "sent_bytes", "received_bytes", "share", "quiet_ms", "pid"}) {
    CHECK_MESSAGE(status["workers"][0].contains(name), name);
  }
  for (const char* name : {"host", "agent", "slots", "workers", "phase", "quiet_ms"}) {
    CHECK_MESSAGE(status["hosts"][0].contains(name), name);
  }
  CHECK(status["name"] == "job");
  CHECK(status["loss"] == 0.5);
  CHECK(status["samples_per_s"] == 640);
  CHECK(status["workers"][0]["rank"] == 0);
  CHECK(status["hosts"].size() == 2);
}

TEST_CASE("workers get torch's names and ours, and the same address of rank 0") {
  Scene scene;
  scene.options.program.environment = {"MINE=1", "RANK=user"};
  REQUIRE(scene.open().ok());
  scene.run([&] { scene.settled_at(2); });
  std::vector<std::string> all;
  for (const auto& [id, agent] : scene.launcher.agents) {
    for (const auto& [worker, spawn] : agent->spawned()) {
      std::string text;
      for (const auto& entry : spawn.environment) text += entry + "\n";
      all.push_back(text);
      CHECK(spawn.argv == std::vector<std::string>{"train"});
      CHECK(text.find("MASTER_ADDR=127.0.0.1\n") != std::string::npos);
      CHECK(text.find("WORLD_SIZE=2\n") != std::string::npos);
      CHECK(text.rfind("RANK=user\n") > text.find("RANK="));
      CHECK(text.find("MASTER_PORT=0\n") == std::string::npos);
    }
  }
  CHECK(all.size() == 2);
}

TEST_CASE("output and forwarded signals carry host and rank, and say what was dropped") {
  Scene scene;
  scene.options.forward_signals = {SIGUSR2};
  REQUIRE(scene.open().ok());
  scene.run([&] {
    scene.settled_at(2);
    scene.in_loop([&] { scene.supervisor->forward_signal(SIGUSR1); });
    scene.in_loop([&] { scene.supervisor->forward_signal(SIGUSR2); });
    bool seen = false;
    for (int i = 0; i < 1'000 && !seen; ++i) {
      scene.in_loop([&] { seen = scene.output.size() >= 4; });
      std::this_thread::sleep_for(milliseconds(5));
    }
  });
  REQUIRE(scene.output.size() >= 4);
  CHECK(scene.output[0].text.find("3 lines were dropped") != std::string::npos);
  CHECK(scene.output[1].text == "signal " + std::to_string(SIGUSR2));
  CHECK(scene.output[1].is_stderr);
  CHECK(scene.output[1].rank >= 0);
  CHECK((scene.output[1].host == "one" || scene.output[1].host == "two"));
}

TEST_CASE("a program that knows nothing of us ends the run with its own status") {
  for (const int code : {0, 7}) {
    Scene scene;
    scene.launcher.behaviours["one"] =
        scene.launcher.behaviours["two"] = {.plain_workers = true, .plain_exit_code = code};
    REQUIRE(scene.open().ok());
    CHECK(scene.run() == code);
    REQUIRE(!scene.output.empty());
    CHECK(scene.output[0].rank >= 0);
  }
}

TEST_CASE("a host that does not answer is reported with the launcher's message, and the run continues without it") {
  Scene scene({{"one", 2}, {"gone", 2}});
  scene.launcher.unreachable = {"gone"};
  REQUIRE(scene.open().ok());
  Json status;
  scene.run([&] { status = scene.settled_at(2); });
  CHECK(!status.is_null());
  CHECK(scene.reported.find("gone: Connection timed out") != std::string::npos);
}

TEST_CASE("an agent with another key or version is refused by name, and the run continues without it") {
  struct Case {
    FakeBehaviour behaviour;
    std::string words;
  };
  const std::vector<Case> cases = {{{.wrong_key = true}, "different key"},
                                   {{.protocol_version = 99}, "speaks protocol 99"},
                                   {{.binary_version = "9.9.9"}, "elastictrain 9.9.9"}};
  for (const Case& c : cases) {
    Scene scene({{"one", 2}, {"odd", 2}});
    scene.launcher.behaviours["odd"] = c.behaviour;
    REQUIRE(scene.open().ok());
    Json status;
    scene.run([&] { status = scene.settled_at(2); });
    CHECK(!status.is_null());
    CHECK_MESSAGE(scene.reported.find(c.words) != std::string::npos, scene.reported);
    CHECK(scene.journal_has("connection_rejected", c.words));
    CHECK(scene.journal_has("agent_lost", "odd"));
  }
}

TEST_CASE("an agent that sends malformed frames is dropped and reported") {
  Scene scene({{"one", 2}, {"odd", 2}});
  scene.launcher.behaviours["odd"].after_hello = [](transport::FrameConnection& connection) {
    connection.send(std::string("\x03\0\0\0abc", 7));
  };
  REQUIRE(scene.open().ok());
  scene.run([&] {
    for (int i = 0; i < 1'000 * testing::kSlowdown && !scene.journal_has("agent_lost", "malformed message"); ++i) {
      std::this_thread::sleep_for(milliseconds(5));
    }
  });
  CHECK(scene.journal_has("agent_lost", "malformed message"));
  CHECK(scene.journal_has("agent_lost", "odd"));
}

TEST_CASE("an agent with more messages than a tick takes keeps its connection") {
  Scene scene({{"one", 2}, {"chatty", 2}});
  scene.launcher.behaviours["chatty"].after_hello = [](transport::FrameConnection& connection) {
    const std::string frame = protocol::encode_frame(protocol::AgentUp(protocol::AgentReport{}));
    for (int i = 0; i < 60'000; ++i) connection.send(frame);
  };
  REQUIRE(scene.open().ok());
  Json settled;
  scene.run([&] {
    scene.ask(R"({"command":"resize","workers":4})");
    settled = scene.settled_at(4);
  });
  CHECK(!settled.is_null());
  CHECK_FALSE(scene.journal_has("agent_lost", "chatty"));
}

TEST_CASE("an agent that speaks for another's worker is dropped") {
  Scene scene;
  REQUIRE(scene.open().ok());
  scene.run([&] {
    scene.settled_at(2);
    scene.in_loop([&] {
      for (const auto& [id, agent] : scene.launcher.agents) {
        for (std::uint32_t worker = 1; worker <= 2; ++worker)
          agent->say(WorkerId{worker}, protocol::WorkerNote{"k", "v"});
      }
    });
    for (int i = 0; i < 1'000 && !scene.journal_has("agent_lost", "reported about"); ++i) {
      std::this_thread::sleep_for(milliseconds(5));
    }
  });
  // With either placement, one of the two agents reported for a worker that is not its own.
  CHECK(scene.journal_has("agent_lost", "reported about"));
}

TEST_CASE("a second run of the same name is refused during the first, and may follow it") {
  Scene scene;
  REQUIRE(scene.open().ok());
  Scene second;
  second.options.run_directory = scene.options.run_directory;
  const Status refused = second.open();
  REQUIRE(!refused.ok());
  CHECK(refused.error().message.find("a run named 'job' is already running") != std::string::npos);
  scene.run([&] { scene.settled_at(2); });
  CHECK(second.open().ok());
}

TEST_CASE("two interrupts end a run that would not stop, with the exit status of an interrupt") {
  Scene scene;
  REQUIRE(scene.open().ok());
  const int status = scene.run([&] {
    scene.settled_at(2);
    scene.in_loop([&] {
      scene.supervisor->request_stop(core::StopCause::kInterrupt);
      scene.supervisor->stop_now();
    });
  });
  CHECK(status == 130);
}

TEST_CASE("a supervisor that was held up for longer than the verdict of death loses no agent") {
  Scene scene;
  scene.options.settings.suspect = Millis(200);
  scene.options.settings.dead = Millis(400);
  REQUIRE(scene.open().ok());
  Json before, after;
  scene.run([&] {
    before = scene.settled_at(2);
    scene.in_loop([] { std::this_thread::sleep_for(milliseconds(1'000)); });
    const int step = before.is_null() ? 0 : before["step"].get<int>();
    after = scene.status_when([&](const Json& s) { return s["step"].get<int>() > step + 200; });
  });
  REQUIRE(!before.is_null());
  CHECK(!after.is_null());
  CHECK(!scene.journal_has("agent_lost", "no report arrived"));
}

TEST_CASE(
    "a timer that comes late waits for what has arrived, then fires once; a cancelled or replaced one never does") {
  asio::io_context io;
  std::vector<std::uint64_t> fired;
  Timers timers(io, [&](std::uint64_t timer) { fired.push_back(timer); });
  const Instant now = std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::steady_clock::now());
  timers.arm(1, now - Millis(300));
  timers.arm(2, now - Millis(300));
  timers.arm(3, now);
  timers.arm(4, now);
  timers.arm(4, now + Millis(3'600'000));
  io.poll();
  CHECK(fired == std::vector<std::uint64_t>{3});
  timers.cancel(2);
  while (fired.size() < 2) io.run_one();
  CHECK(fired == std::vector<std::uint64_t>{3, 1});
  timers.clear();
  io.run();
  CHECK(fired.size() == 2);
}

TEST_CASE("a time limit stops the run at a step boundary") {
  Scene scene;
  scene.options.time_limit_ms = 400;
  REQUIRE(scene.open().ok());
  scene.run();
  CHECK(scene.journal_has("run_closed"));
}

TEST_CASE("the run's key is in no journal record and in no worker's environment") {
  Scene scene;
  REQUIRE(scene.open().ok());
  scene.run([&] { scene.settled_at(2); });
  std::string everything;
  for (const Json& record : scene.journal()) everything += record.dump();
  for (const auto& [id, agent] : scene.launcher.agents) {
    for (const auto& [worker, spawn] : agent->spawned()) {
      for (const auto& entry : spawn.environment) everything += entry;
    }
  }
  REQUIRE(!scene.launcher.keys.empty());
  std::string hex;
  for (std::uint8_t byte : scene.launcher.keys[0]) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    hex += digits;
  }
  const std::string raw(scene.launcher.keys[0].begin(), scene.launcher.keys[0].end());
  CHECK(everything.find(hex) == std::string::npos);
  CHECK(everything.find(raw) == std::string::npos);
}

TEST_CASE("malformed data on the control socket gets an answer with the error") {
  Scene scene;
  REQUIRE(scene.open().ok());
  std::map<std::string, std::string> answers;
  bool long_refused = false;
  mode_t mode = 0;
  scene.run([&] {
    for (const char* request : {"not json", "[]", "{}", R"({"command":"dance"})", R"({"command":"resize"})",
                                R"({"command":"resize","workers":-1})", R"({"command":"drain","host":7})"}) {
      const Json answer = scene.ask(request);
      if (answer["ok"] == false) answers[request] = answer["text"];
    }
    const Json answer = scene.ask(std::string(control::kMaxRequestBytes + 10, 'x'));
    long_refused = answer["ok"] == false;
    struct stat found {};
    ::stat((scene.options.run_directory + "/control.sock").c_str(), &found);
    mode = found.st_mode & 0777;
  });
  CHECK(answers.size() == 7);
  CHECK(answers[R"({"command":"dance"})"].find("unknown command 'dance'") != std::string::npos);
  CHECK(long_refused);
  CHECK(mode == 0600);
}

TEST_CASE("several clients are served while others connect and say nothing") {
  Scene scene;
  REQUIRE(scene.open().ok());
  Json status;
  scene.run([&] {
    std::vector<int> silent;
    const auto address = transport::LocalAddress::of(scene.options.run_directory + "/" + control::kSocketName);
    for (int i = 0; i < 20; ++i) {
      silent.push_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
      (void)::connect(silent.back(), address->generic(), address->length());
    }
    status = scene.settled_at(2);
    for (int socket : silent) ::close(socket);
  });
  CHECK(!status.is_null());
}

TEST_CASE("figures reach the observer, with the size and the speed") {
  Scene scene;
  std::vector<RunFigures> shown;
  scene.options.on_figures = [&](const RunFigures& figures) { shown.push_back(figures); };
  REQUIRE(scene.open().ok());
  scene.run([&] { scene.status_when([](const Json& s) { return s["step"].get<int>() > 10; }); });
  REQUIRE(!shown.empty());
  CHECK(shown.back().samples_per_s == 640);
  CHECK(shown.back().view.run_name == "job");
}

}  // namespace
}  // namespace elastictrain
