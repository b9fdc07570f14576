// Purpose: one live run in a directory of its own, with fake agents, and a user that observes it and sends requests
// over the control socket. For tests of the supervisor. Ownership: a Scene owns everything. Thread: the loop runs on
// the test's thread, the user's script on one of its own.
#pragma once

#include <unistd.h>

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "supervisor/control/control_client.h"
#include "supervisor/control/control_protocol.h"
#include "supervisor/supervisor.h"
#include "tests/support/temporary_directory.h"
#include "tests/unit/supervisor/fake_agent.h"

namespace elastictrain::testing {

using Json = nlohmann::json;
using std::chrono::milliseconds;

class FakeLauncher final : public launcher::Launcher {
 public:
  explicit FakeLauncher(asio::io_context& io) : io_(io) {}

  launcher::Capabilities capabilities() const override { return {"fake", true, false}; }
  std::vector<std::string> command_line(const std::string&) const override { return {}; }

  void launch(launcher::AgentSpec spec) override {
    const AgentId id = spec.agent;
    hosts[spec.host] = id;
    if (unreachable.contains(spec.host)) {
      asio::post(io_, [this, id, host = spec.host] { end(id, host + ": Connection timed out"); });
      return;
    }
    ++launches;
    keys.push_back(spec.bootstrap.key);
    const FakeBehaviour behaviour = behaviours[spec.host];
    agents[id] = std::make_shared<FakeAgent>(io_, std::move(spec.bootstrap), behaviour,
                                             [this, id](const std::string& why) { end(id, why); });
    agents[id]->start();
  }

  void forget(AgentId agent) override {
    ++forgotten;
    if (agents.contains(agent)) agents[agent]->vanish();
  }

  void end(AgentId agent, const std::string& why) {
    if (!over.insert(agent).second) return;
    if (supervisor != nullptr) supervisor->launch_ended({agent, why.empty(), 0, 0, why});
  }

  std::shared_ptr<FakeAgent> on(const std::string& host) { return agents.at(hosts.at(host)); }

  Supervisor* supervisor = nullptr;
  std::map<std::string, FakeBehaviour> behaviours;
  std::set<std::string> unreachable;
  std::map<AgentId, std::shared_ptr<FakeAgent>> agents;
  std::map<std::string, AgentId> hosts;
  std::vector<transport::Key> keys;
  std::set<AgentId> over;
  int forgotten = 0;
  int launches = 0;

 private:
  asio::io_context& io_;
};

class FixedHosts final : public launcher::HostSource {
 public:
  FixedHosts(asio::io_context& io, std::vector<launcher::Host> hosts) : io_(io), hosts_(std::move(hosts)) {}
  void poll(std::function<void(Result<std::vector<launcher::Host>>)> done) override {
    asio::post(io_, [this, done] { done(hosts_); });
  }
  std::uint64_t interval_ms() const override { return 0; }

 private:
  asio::io_context& io_;
  std::vector<launcher::Host> hosts_;
};

// One run in a directory of its own, with a user that observes it and sends requests over the control socket.
struct Scene {
  explicit Scene(std::vector<launcher::Host> hosts = {{"one", 2}, {"two", 2}})
      : launcher(io), source(io, std::move(hosts)) {
    options.run_directory = root.file("state/job");
    options.settings.run_name = "job";
    options.settings.min_workers = 2;
    options.settings.start_workers = 2;
    options.settings.max_workers = 4;
    options.settings.grace = Millis(2'000);
    options.settings.start_timeout = Millis(10'000);
    options.program.argv = {"train"};
    options.heartbeat_ms = 20;
    options.on_tell = [this](core::Tell::Level, const std::string& text) { reported += text + "\n"; };
    options.on_output = [this](const OutputLine& line) { output.push_back(line); };
  }
  ~Scene() {
    if (user.joinable()) user.join();
    supervisor.reset();
  }

  Status open() {
    supervisor = std::make_unique<Supervisor>(io, options, launcher, source);
    launcher.supervisor = supervisor.get();
    return supervisor->open();
  }

  // Runs with the user's script on a thread of its own. A script that gives up ends the run.
  int run(std::function<void()> script = nullptr) {
    if (script) {
      user = std::thread([this, script] {
        script();
        if (control::is_live(options.run_directory)) ask(R"({"command":"stop","now":true})");
      });
    }
    const int status = supervisor->run();
    // The script may still be storing the last answer, which the caller is about to read.
    if (user.joinable()) user.join();
    return status;
  }

  Json ask(const std::string& request) {
    const auto answer = control::ask(options.run_directory, request, Millis(20'000));
    return answer.ok() ? Json::parse(*answer) : Json{{"ok", false}, {"text", answer.error().message}};
  }

  // The first status that fits, or null if none did in time.
  Json status_when(const std::function<bool(const Json&)>& fits) {
    for (int tries = 0; tries < 1'000; ++tries) {
      const Json answer = ask(R"({"command":"status"})");
      if (answer["ok"] == true && fits(answer["status"])) return answer["status"];
      std::this_thread::sleep_for(milliseconds(10));
    }
    return nullptr;
  }

  Json settled_at(std::uint64_t size) {
    return status_when([size](const Json& s) { return s["world_size"] == size && s["phase"] == "running"; });
  }

  // Runs until the script is over, then ends the supervisor as KILL would, without a message to any peer. The processes
  // that it launched continue.
  void run_until_killed(std::function<void()> script) {
    struct Killed {};
    user = std::thread([this, script] {
      script();
      asio::post(io, [] { throw Killed(); });
    });
    try {
      supervisor->run();
    } catch (const Killed&) {
    }
    user.join();
    launcher.supervisor = nullptr;
    supervisor.reset();
  }

  // From the loop's thread, if the user's script must access the fake agents.
  void in_loop(std::function<void()> what) {
    std::promise<void> done;
    asio::post(io, [&] {
      what();
      done.set_value();
    });
    done.get_future().wait();
  }

  // The records written so far; the run may be in the middle of its next line.
  std::vector<Json> journal() const {
    std::vector<Json> records;
    std::ifstream file(options.run_directory + "/" + control::kJournalName);
    for (std::string line; std::getline(file, line) && !file.eof();) records.push_back(Json::parse(line));
    return records;
  }

  bool journal_has(const std::string& event, const std::string& part = "") const {
    for (const Json& record : journal()) {
      if (record["event"] == event && record.dump().find(part) != std::string::npos) return true;
    }
    return false;
  }

  asio::io_context io;
  const test::TemporaryDirectory root;
  SupervisorOptions options;
  FakeLauncher launcher;
  FixedHosts source;
  std::unique_ptr<Supervisor> supervisor;
  std::thread user;
  std::string reported;
  std::vector<OutputLine> output;
};

}  // namespace elastictrain::testing
