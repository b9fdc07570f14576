// A worker that goes through past epochs before it starts.
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "fake_run.h"

namespace elastictrain::test {
namespace {

// It goes at once to the epoch that the session names, and writes the epochs that it has reached to a file.
TestWorkerOptions passing(const std::string& path) {
  TestWorkerOptions options;
  options.before_start = [path](Session& session) {
    std::uint64_t epoch = 0;
    for (std::uint64_t next = 1; next != epoch; next = session.await_start(epoch)) {
      epoch = next;
      std::ofstream(path, std::ios::app) << epoch << " ";
    }
    CHECK_THROWS_AS(session.share_state("late", nullptr, 0), SessionError);
  };
  options.after_start = [](Session& session) { CHECK_THROWS_AS(session.await_start(0), SessionError); };
  return options;
}

std::string passed_epochs(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST_CASE("a worker goes through past epochs before it is ready, and through later ones until it has its assignment") {
  FakeRun run;
  const auto first = run.spawn_ready();
  run.change_to({first});
  run.tell_epoch(7);
  const std::string path = run.directory() + "/epochs";
  const auto joiner = run.spawn_ready(passing(path));
  CHECK(passed_epochs(path) == "1 7 ");
  run.tell_epoch(9);
  run.wait_until([&] { return passed_epochs(path) == "1 7 9 "; }, "the joiner to be in epoch 9");
  run.change_to({first, joiner});
  run.wait_step(joiner, run[first].heartbeat.step + 3);
  CHECK(passed_epochs(path) == "1 7 9 ");
  run.stop_and_check();
}

TEST_CASE("without a launcher nothing is waited for") {
  Session session;
  CHECK(session.await_start(3) == 3);
  REQUIRE(session.start());
}

}  // namespace
}  // namespace elastictrain::test
