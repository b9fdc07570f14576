#include "launcher/agent/notice_probe.h"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <asio/io_context.hpp>
#include <filesystem>
#include <fstream>
#include <functional>

#include "launcher/process/session_sweep.h"
#include "tests/support/temporary_directory.h"

namespace launcher = elastictrain::launcher;
using launcher::NoticeProbe;
using std::chrono::milliseconds;

namespace {

struct Probe {
  explicit Probe(const std::string& command, milliseconds period = milliseconds(20)) {
    probe = std::make_unique<NoticeProbe>(
        io, NoticeProbe::Setup{command, period, {"DIR=" + directory.path, "ELASTICTRAIN_HOST=node7"}},
        NoticeProbe::Handlers{[this](const std::string& reason) { notices.push_back(reason); },
                              [this](const std::string& text) { answer.push_back(text); }});
    probe->start();
  }
  ~Probe() {
    probe->stop();
    io.run_for(milliseconds(50));
  }
  bool run_until(const std::function<bool()>& holds) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!holds() && std::chrono::steady_clock::now() < deadline) io.run_one_for(milliseconds(20));
    return holds();
  }
  int asked() const {
    std::ifstream file(directory.file("asked"));
    int count = 0;
    for (std::string line; std::getline(file, line);) ++count;
    return count;
  }

  asio::io_context io;
  std::unique_ptr<NoticeProbe> probe;
  std::vector<std::string> notices;
  std::vector<std::string> answer;
  elastictrain::test::TemporaryDirectory directory;
};

}  // namespace

TEST_CASE("a probe is repeated until its answer is yes, which is reported once, with its last line") {
  Probe probe("echo x >>$DIR/asked; [ $(wc -l <$DIR/asked) -ge 3 ] && echo spot instance on $ELASTICTRAIN_HOST ends",
              milliseconds(500));  // also the deadline of each answer
  REQUIRE(probe.run_until([&] { return !probe.notices.empty(); }));
  CHECK(probe.notices[0] == "reported by its notice command: spot instance on node7 ends");
  CHECK(probe.asked() == 3);
  probe.run_until([&, until = std::chrono::steady_clock::now() + milliseconds(200)] {
    return std::chrono::steady_clock::now() > until;
  });
  CHECK(probe.asked() == 3);
  CHECK(probe.notices.size() == 1);
  CHECK(probe.answer.empty());
}

TEST_CASE("every other end of a probe means no: a status, a signal, a program that is not there") {
  for (const char* command : {"exit 1", "kill -9 $$", "/nonexistent/probe"}) {
    Probe probe(std::string("echo x >>$DIR/asked; ") + command);
    REQUIRE(probe.run_until([&] { return probe.asked() >= 3; }));
    CHECK(probe.notices.empty());
  }
}

TEST_CASE("a probe that hangs is killed with its child processes, reported once, and never runs twice at a time") {
  Probe probe("echo x >>$DIR/asked; trap '' TERM; sleep 1000 & sleep 1000", milliseconds(100));
  REQUIRE(probe.run_until([&] { return probe.asked() >= 1; }));
  std::size_t max = 0;
  REQUIRE(probe.run_until([&] {
    max = std::max(max, launcher::descendants(::getpid()).size());
    return probe.asked() >= 2;
  }));
  CHECK(max <= 3);
  CHECK(probe.answer.size() == 1);
  CHECK(probe.answer[0].find("did not end within 100.0 ms") != std::string::npos);
  CHECK(probe.notices.empty());
}

TEST_CASE("a stopped probe reports nothing") {
  Probe probe("sleep 0.2; exit 0", milliseconds(5'000));
  probe.probe->stop();
  probe.run_until([&, until = std::chrono::steady_clock::now() + milliseconds(400)] {
    return std::chrono::steady_clock::now() > until;
  });
  CHECK(probe.notices.empty());
}
