// A run that has lost its supervisor, and the supervisor that takes it over.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <fstream>
#include <thread>

#include "launcher/process/process_identity.h"
#include "supervisor/core/pure/journal_fold.h"
#include "supervisor/run_record.h"
#include "tests/unit/supervisor/scene.h"

namespace elastictrain {
namespace {

using std::chrono::milliseconds;
using testing::Json;
using testing::Scene;

std::set<std::uint64_t> ids_of(const Json& status) {
  std::set<std::uint64_t> ids;
  for (const Json& worker : status["workers"]) ids.insert(worker["id"].get<std::uint64_t>());
  return ids;
}

// All agents have reconnected, and all workers have reported their state.
bool is_whole(const Json& status, std::size_t workers) {
  bool whole = status["phase"] == "running" && status["world_size"] == workers && status["workers"].size() == workers;
  for (const Json& host : status["hosts"]) whole = whole && host["phase"] == "up";
  for (const Json& worker : status["workers"]) whole = whole && worker["step"] > 0 && worker["pid"] > 0;
  return whole;
}

struct LostSupervisor : Scene {
  LostSupervisor() {
    options.recorded_config = "as it was";
    options.settings.resume_timeout = Millis(5'000);
    for (const char* host : {"one", "two"}) launcher.behaviours[host] = {.reconnects = true};
  }

  // Waits until the run is complete, then kills the supervisor.
  void lose_supervisor() {
    REQUIRE(open().ok());
    run_until_killed([this] { before = status_when([](const Json& s) { return is_whole(s, 2); }); });
    REQUIRE(!before.is_null());
    options.start = RunStart::kTakeOver;
  }

  Json before;
};

TEST_CASE("a run is taken over with its agents, its workers and its generation, and nothing is started again") {
  LostSupervisor scene;
  scene.lose_supervisor();
  const int launches = scene.launcher.launches;
  REQUIRE(scene.open().ok());
  Json after, grown;
  const int status = scene.run([&] {
    after = scene.status_when([](const Json& s) { return is_whole(s, 2); });
    scene.ask(R"({"command":"resize","workers":3})");
    grown = scene.settled_at(3);
    scene.ask(R"({"command":"stop"})");
    while (control::is_live(scene.options.run_directory)) std::this_thread::sleep_for(milliseconds(5));
  });
  INFO(scene.reported);
  REQUIRE(!after.is_null());
  CHECK(after["generation"] == scene.before["generation"]);
  CHECK(ids_of(after) == ids_of(scene.before));
  CHECK(after["workers"][0]["pid"] == scene.before["workers"][0]["pid"]);
  CHECK(after["uptime_s"] >= scene.before["uptime_s"]);
  REQUIRE(!grown.is_null());
  CHECK(grown["generation"] > after["generation"]);
  CHECK(status == 0);
  CHECK(scene.launcher.launches == launches);
  CHECK(scene.launcher.over.size() == 2);  // and no agent is left
  CHECK(scene.journal_has("run_resumed"));
}

// As the end of the process does.
struct ProcessEnded {};

TEST_CASE("a broken rule ends the supervisor before anything of its step leaves, and its workers are taken over") {
  LostSupervisor scene;
  scene.options.settings.also_holds = [](const core::Actions& actions) -> std::optional<std::string> {
    const auto spawns = [](const core::Action& action) {
      const auto* spawn = std::get_if<core::SpawnWorker>(&action);
      return spawn != nullptr && spawn->worker.value > 2;
    };
    if (std::ranges::none_of(actions, spawns)) return std::nullopt;
    return "no third worker";
  };
  scene.options.end_process = [] { throw ProcessEnded(); };
  REQUIRE(scene.open().ok());
  scene.user = std::thread([&] {
    scene.before = scene.status_when([](const Json& s) { return is_whole(s, 2); });
    scene.ask(R"({"command":"resize","workers":3})");
  });
  CHECK_THROWS_AS(scene.supervisor->run(), ProcessEnded);
  scene.launcher.supervisor = nullptr;
  scene.supervisor.reset();
  scene.user.join();
  REQUIRE(!scene.before.is_null());
  CHECK(scene.journal().back()["event"] == "invariant_broken");
  CHECK(scene.journal().back()["what"] == "no third worker");
  CHECK(!scene.journal_has("spawn", "\"worker\":3"));
  CHECK(scene.reported.find("internal error: no third worker. Nothing of this was carried out") != std::string::npos);
  CHECK(scene.reported.find("elastictrain run --resume job") != std::string::npos);

  scene.options.settings.also_holds = nullptr;
  scene.options.start = RunStart::kTakeOver;
  REQUIRE(scene.open().ok());
  Json after;
  const int status = scene.run([&] {
    after = scene.status_when([](const Json& s) { return is_whole(s, 2); });
    scene.ask(R"({"command":"stop"})");
    while (control::is_live(scene.options.run_directory)) std::this_thread::sleep_for(milliseconds(5));
  });
  INFO(scene.reported);
  REQUIRE(!after.is_null());
  CHECK(ids_of(after) == ids_of(scene.before));
  CHECK(after["generation"] == scene.before["generation"]);
  CHECK(after["workers"][0]["pid"] == scene.before["workers"][0]["pid"]);
  CHECK(status == 0);
}

TEST_CASE("if no agent reconnects the hosts are started again, and numbers continue") {
  LostSupervisor scene;
  scene.lose_supervisor();
  scene.options.settings.resume_timeout = Millis(200);
  for (const auto& [id, agent] : scene.launcher.agents) agent->vanish();
  REQUIRE(scene.open().ok());
  Json after;
  scene.run([&] { after = scene.status_when([](const Json& s) { return is_whole(s, 2); }); });
  INFO(scene.reported);
  REQUIRE(!after.is_null());
  CHECK(after["generation"] > scene.before["generation"]);
  for (const std::uint64_t id : ids_of(scene.before)) CHECK(!ids_of(after).contains(id));
}

// The workers of this scene answer no fence, so that they are ended; resume_test.py has real ones.
TEST_CASE("after a power cut of the supervisor's machine no number is issued twice") {
  LostSupervisor scene;
  scene.lose_supervisor();
  scene.options.settings.failures.halt_timeout = Millis(200);
  scene.options.settings.failures.hang_max = Millis(200);  // nobody answers
  const std::string path = scene.options.run_directory + "/" + control::kJournalName;
  std::string journal = test::read_file(path);
  const std::string boot = launcher::boot_id();
  REQUIRE(journal.find(boot) != std::string::npos);
  journal.replace(journal.find(boot), boot.size(), "the one before");
  std::ofstream(path) << journal;
  REQUIRE(scene.open().ok());
  Json after;
  scene.run([&] { after = scene.status_when([](const Json& s) { return is_whole(s, 2); }); });
  INFO(scene.reported);
  REQUIRE(!after.is_null());
  CHECK(*ids_of(after).begin() > core::kMaxUnsyncedRecords);
  CHECK(after["generation"] > core::kMaxUnsyncedRecords);
}

TEST_CASE("a run that was supervised from another machine starts its hosts anew") {
  LostSupervisor scene;
  scene.lose_supervisor();
  scene.options.settings.resume_timeout = Millis(200);
  for (const auto& [id, agent] : scene.launcher.agents) agent->vanish();
  auto record = load_run_record(scene.options.run_directory);
  REQUIRE(record.ok());
  record->listen_addresses = {"192.0.2.1"};
  REQUIRE(save_run_record(scene.options.run_directory, *record).ok());
  REQUIRE(scene.open().ok());
  Json after;
  scene.run([&] { after = scene.status_when([](const Json& s) { return is_whole(s, 2); }); });
  CHECK(!after.is_null());
  CHECK(scene.reported.find("from another machine") != std::string::npos);
}

TEST_CASE("the record of a run is for its owner only, and loses its key when the run ends") {
  LostSupervisor scene;
  scene.lose_supervisor();
  const auto record = load_run_record(scene.options.run_directory);
  REQUIRE(record.ok());
  struct stat found {};
  REQUIRE(::stat(run_record_path(scene.options.run_directory).c_str(), &found) == 0);
  CHECK((found.st_mode & 0777) == 0600);
  CHECK(record->config == "as it was");
  CHECK(record->key == scene.launcher.keys.front());
  CHECK(!record->end);
  REQUIRE(scene.open().ok());
  CHECK(scene.supervisor->listen_port() == record->port);
  scene.run([&] { scene.ask(R"({"command":"stop","now":true})"); });
  const auto ended = load_run_record(scene.options.run_directory);
  REQUIRE(ended.ok());
  CHECK(ended->end.has_value());
  CHECK(ended->key == transport::Key{});
  const Status again = scene.open();
  REQUIRE(!again.ok());
  CHECK(again.error().code == ErrorCode::kUnavailable);
  CHECK(again.error().message.find("has ended") != std::string::npos);
}

TEST_CASE("what a finished run does not need any more leaves its record") {
  LostSupervisor scene;
  scene.options.ended_config = "without values";
  REQUIRE(scene.open().ok());
  scene.run([&] {
    scene.status_when([](const Json& s) { return is_whole(s, 2); });
    scene.ask(R"({"command":"stop","now":true})");
  });
  const auto ended = load_run_record(scene.options.run_directory);
  REQUIRE(ended.ok());
  REQUIRE(ended->end.has_value());
  CHECK(ended->end->exit_status == 0);
  CHECK(ended->config == "without values");
}

TEST_CASE("the journal of another run is refused") {
  LostSupervisor scene;
  scene.lose_supervisor();
  const std::string path = scene.options.run_directory + "/" + control::kJournalName;
  std::string journal = test::read_file(path);
  const std::string own = "\"run\":\"" + scene.options.settings.run_name + "\"";
  REQUIRE(journal.find(own) != std::string::npos);
  journal.replace(journal.find(own), own.size(), "\"run\":\"another\"");
  std::ofstream(path) << journal;
  const Status refused = scene.open();
  REQUIRE(!refused.ok());
  CHECK(refused.error().code == ErrorCode::kMismatch);
  CHECK(refused.error().message.find("is the journal of run another, not of run ") != std::string::npos);
}

TEST_CASE("of two that take a run over the second is refused") {
  LostSupervisor scene;
  scene.lose_supervisor();
  REQUIRE(scene.open().ok());
  asio::io_context io;
  Supervisor second(io, scene.options, scene.launcher, scene.source);
  const Status refused = second.open();
  REQUIRE(!refused.ok());
  CHECK(refused.error().code == ErrorCode::kRefused);
  scene.run([&] { scene.ask(R"({"command":"stop","now":true})"); });
}

TEST_CASE("a record that is cut off or of another version is refused by name") {
  LostSupervisor scene;
  scene.lose_supervisor();
  const std::string path = run_record_path(scene.options.run_directory);
  auto record = load_run_record(scene.options.run_directory);
  REQUIRE(record.ok());
  record->version = "0.0.0-other";
  REQUIRE(save_run_record(scene.options.run_directory, *record).ok());
  CHECK(scene.open().error().message.find("0.0.0-other") != std::string::npos);
  std::filesystem::resize_file(path, 40);
  CHECK(scene.open().error().message.find(path) != std::string::npos);
  for (const auto& [id, agent] : scene.launcher.agents) agent->vanish();
}

}  // namespace
}  // namespace elastictrain
