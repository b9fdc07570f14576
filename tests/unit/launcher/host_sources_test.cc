#include "launcher/host_sources.h"
#include "tests/support/contains.h"
#include "tests/support/temporary_directory.h"

#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <fstream>
#include <optional>

namespace launcher = elastictrain::launcher;
using elastictrain::Result;
using launcher::Host;

namespace {

using Answer = Result<std::vector<Host>>;

Answer poll(asio::io_context& io, launcher::HostSource& source) {
  std::optional<Answer> answer;
  source.poll([&](Answer result) { answer.emplace(std::move(result)); });
  CHECK_FALSE(answer.has_value());
  io.restart();
  while (!answer && io.run_one_for(std::chrono::seconds(20)) > 0) {
  }
  REQUIRE(answer.has_value());
  return *answer;
}

Answer discover(const std::string& script, std::uint64_t timeout_ms = 10'000) {
  asio::io_context io;
  const auto source = launcher::discovery_source(io, {launcher::shell_command(script), 1000, timeout_ms});
  CHECK(source->interval_ms() == 1000);
  return poll(io, *source);
}

using elastictrain::test::contains;

}  // namespace

TEST_CASE("static hosts answer later, always the same, and are not polled") {
  asio::io_context io;
  const auto source = launcher::static_hosts(io, {{"a", 2}});
  CHECK(source->interval_ms() == 0);
  CHECK(*poll(io, *source) == std::vector<Host>{{"a", 2}});
}

TEST_CASE("a host file is read again at every poll") {
  char path[] = "/tmp/elastictrain-hosts-XXXXXX";
  const int fd = ::mkstemp(path);
  REQUIRE(fd >= 0);
  ::close(fd);
  asio::io_context io;
  const auto source = launcher::hostfile_source(io, path, 500);
  CHECK(source->interval_ms() == 500);
  std::ofstream(path) << "a:2\n";
  CHECK(*poll(io, *source) == std::vector<Host>{{"a", 2}});
  std::ofstream(path) << "a:2\nb\n";
  CHECK(*poll(io, *source) == std::vector<Host>{{"a", 2}, {"b", 1}});
  std::ofstream(path) << "# nothing\n";
  CHECK(contains(poll(io, *source).error().message, "names no host"));
  ::unlink(path);
  const auto missing = poll(io, *source);
  REQUIRE_FALSE(missing.ok());
  CHECK(contains(missing.error().message, path));
  CHECK(contains(missing.error().message, "No such file"));
}

TEST_CASE("while a host file cannot be read the loop goes on") {
  const elastictrain::test::TemporaryDirectory directory;
  const std::string path = directory.file("hosts");
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  asio::io_context io;
  const auto source = launcher::hostfile_source(io, path, 500);
  bool answered = false;
  bool has_hosts = false;
  source->poll([&](const auto& hosts) {
    answered = true;
    has_hosts = hosts.ok();
  });
  for (int turn = 0; turn < 10; ++turn) {
    asio::steady_timer timer(io, std::chrono::milliseconds(5));
    bool rang = false;
    timer.async_wait([&](const asio::error_code&) { rang = true; });
    while (!rang) io.run_one();
  }
  CHECK_FALSE(answered);
  std::ofstream(path) << "a:2\n";
  while (!answered) io.run_one();
  CHECK(has_hosts);
}

TEST_CASE("a discovery command gives hosts, also none") {
  CHECK(*discover("echo a:2; echo b") == std::vector<Host>{{"a", 2}, {"b", 1}});
  CHECK(discover("true")->empty());
}

TEST_CASE("a discovery command that fails is quoted") {
  const auto failed = discover("printf 'fir%s\\n' st >&2; echo 'cloud says no' >&2; exit 3");
  REQUIRE_FALSE(failed.ok());
  CHECK(contains(failed.error().message, "exit status 3"));
  CHECK(contains(failed.error().message, "cloud says no"));
  CHECK_FALSE(contains(failed.error().message, "first"));
  CHECK(contains(discover("kill -9 $$").error().message, "signal 9"));
  CHECK(contains(discover("echo a:x").error().message, ":1: slots must be"));
}

TEST_CASE("a discovery command that hangs is ended with its children") {
  const auto hung = discover("echo waiting >&2; sleep 1000 & sleep 1000", 100);
  REQUIRE_FALSE(hung.ok());
  CHECK(hung.error().code == elastictrain::ErrorCode::kTimeout);
  CHECK(contains(hung.error().message, "100.0 ms"));
  CHECK(contains(hung.error().message, "waiting"));
}

TEST_CASE("a discovery command that never stops printing is ended") {
  CHECK(contains(discover("yes a:1").error().message, "too much for a list of hosts"));
}

TEST_CASE("a discovery command that is not there is an error of the poll") {
  asio::io_context io;
  const auto source = launcher::discovery_source(io, {{"/nonexistent/discover"}, 1000, 1000});
  CHECK(contains(poll(io, *source).error().message, "/nonexistent/discover"));
}

TEST_CASE("a source that goes away while its command runs leaves no process") {
  asio::io_context io;
  auto source = launcher::discovery_source(io, {launcher::shell_command("sleep 1000"), 1000, 100'000});
  bool answered = false;
  source->poll([&](Answer) { answered = true; });
  source.reset();
  io.run_for(std::chrono::seconds(10));
  CHECK(io.stopped());
  CHECK(answered);
}
