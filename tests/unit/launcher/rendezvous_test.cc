#include "launcher/rendezvous/rendezvous.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <asio/io_context.hpp>
#include <string>
#include <vector>

#include "launcher/rendezvous/join.h"
#include "launcher/rendezvous/secret.h"

using namespace elastictrain;
using namespace elastictrain::launcher;
using namespace std::chrono_literals;

namespace {

const transport::Key kKey = rendezvous_key("0123456789abcdef", "job");

struct Run {
  Run() {
    RendezvousOptions options;
    options.addresses = {"127.0.0.1"};
    options.key = kKey;
    options.own = {{"first", 2}};
    options.say = [this](const std::string& text) { said += text + "\n"; };
    auto opened = Rendezvous::open(io, std::move(options));
    REQUIRE(opened.ok());
    meeting = std::move(*opened);
    hosts = meeting->hosts();
  }

  std::vector<Host> offered() {
    std::vector<Host> found;
    bool answered = false;
    hosts->poll([&](const Result<std::vector<Host>>& polled) {
      found = polled.value();
      answered = true;
    });
    while (!answered) io.run_one();
    return found;
  }

  bool comes_to(std::size_t count) {
    for (int i = 0; i < 600 && offered().size() != count; ++i) io.run_for(50ms);
    return offered().size() == count;
  }

  asio::io_context io{1};
  std::string said;
  std::unique_ptr<Rendezvous> meeting;
  std::unique_ptr<HostSource> hosts;
};

pid_t start_command(std::uint16_t port, const transport::Key& key, const std::string& host) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  JoinOptions options;
  options.endpoint_host = "127.0.0.1";
  options.port = port;
  options.key = key;
  options.host = host;
  options.slots = 3;
  options.patience = 2s;
  options.say = [](const std::string&) {};
  ::_exit(join_run(options));
}

int status_of(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("commands offer their hosts under names of their own and end with the run's status") {
  Run run;
  const pid_t second = start_command(run.meeting->port(), kKey, "first");
  REQUIRE(run.comes_to(2));
  const pid_t third = start_command(run.meeting->port(), kKey, "other");
  REQUIRE(run.comes_to(3));
  CHECK(run.offered() == std::vector<Host>{{"first", 2}, {"first-2", 3}, {"other", 3}});
  CHECK(run.meeting->serves("first-2"));
  CHECK_FALSE(run.meeting->serves("first"));
  run.meeting->finish(7, 60s);
  CHECK(status_of(second) == 7);
  CHECK(status_of(third) == 7);
}

TEST_CASE("a command whose host is never used ends well, and its host is no longer offered") {
  Run run;
  const pid_t command = start_command(run.meeting->port(), kKey, "other");
  REQUIRE(run.comes_to(2));
  run.meeting->let_go("first", "a host without a command");
  run.meeting->let_go("other", "the program has a fixed size");
  CHECK(run.offered() == std::vector<Host>{{"first", 2}});
  int status = 0;
  for (int i = 0; i < 600 && ::waitpid(command, &status, WNOHANG) == 0; ++i) run.io.run_for(50ms);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a host leaves with the signal that ends its command") {
  Run run;
  const pid_t command = start_command(run.meeting->port(), kKey, "other");
  REQUIRE(run.comes_to(2));
  ::kill(command, SIGTERM);
  CHECK(run.comes_to(1));
  CHECK(status_of(command) == 128 + SIGTERM);
}

TEST_CASE("a command with another key is no host") {
  Run run;
  const pid_t command = start_command(run.meeting->port(), rendezvous_key("0123456789abcdef", "other"), "other");
  for (int i = 0; i < 600 && run.said.empty(); ++i) run.io.run_for(50ms);
  CHECK(run.said.find("it needs the same secret") != std::string::npos);
  CHECK(run.offered().size() == 1);
  CHECK(status_of(command) == 69);
}
