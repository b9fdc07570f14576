// The commands that add hosts and give them back, when they cannot be started.
#include "launcher/elastic_hosts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <filesystem>
#include <fstream>

#include "launcher/host_sources.h"
#include "launcher/hostfile.h"
#include "tests/support/temporary_directory.h"

namespace launcher = elastictrain::launcher;
using launcher::Host;

namespace {

// More than a single argument of a program may contain.
const std::string kTooLong = ": " + std::string(1 << 18, 'x');

struct Lab {
  explicit Lab(launcher::ElasticHostsOptions options)
      : hosts(
            io, launcher::static_hosts(io, {{"a", 1}}), std::move(options),
            [this] {
              return launcher::HostDemand{wanted, {{"a", 1, workers}}};
            },
            [this](const std::string& text) { messages.push_back(text); }) {}

  std::vector<Host> poll() {
    std::vector<Host> answer;
    hosts.poll([&](elastictrain::Result<std::vector<Host>> result) { answer = *result; });
    io.restart();
    io.run();
    return answer;
  }

  bool has_asked(const std::string& part) const {
    return std::any_of(messages.begin(), messages.end(),
                       [&](const std::string& text) { return text.find(part) != std::string::npos; });
  }

  asio::io_context io;
  std::uint32_t wanted = 1, workers = 1;
  std::vector<std::string> messages;
  launcher::ElasticHosts hosts;
};

launcher::ElasticHostsOptions options(std::string expand, std::string shrink) {
  launcher::ElasticHostsOptions options;
  options.expand = std::move(expand);
  options.shrink = std::move(shrink);
  options.settings.can_expand = true;
  options.settings.can_shrink = true;
  return options;
}

}  // namespace

TEST_CASE("hosts that a command prints are offered with those beneath, and given back at the end") {
  Lab lab(options("echo b:2", "exit 3"));
  CHECK(lab.poll() == std::vector<Host>{{"a", 1}});
  lab.wanted = 3;
  lab.poll();
  CHECK(lab.poll() == std::vector<Host>{{"a", 1}, {"b", 2}});
  lab.hosts.give_all_back();
  CHECK(lab.has_asked("giving b back: exit 3"));
  CHECK(lab.has_asked("exit 3 ended with exit status 3"));
}

TEST_CASE("a command that cannot be started is reported with the reason, and the list stays unchanged") {
  Lab lab(options(kTooLong, ""));
  lab.wanted = 2;
  CHECK(lab.poll() == std::vector<Host>{{"a", 1}});
  CHECK(lab.has_asked("x cannot be run: cannot run \"sh\": Argument list too long"));
}

TEST_CASE("a command that cannot be started does not keep a run that ends") {
  Lab lab(options("echo b:2", kTooLong));
  lab.wanted = 3;
  lab.poll();
  lab.hosts.give_all_back();
  CHECK(lab.has_asked("x cannot be run: cannot run \"sh\": Argument list too long"));
}

// The agents there start by the batch system's tool, which wants the job that runs.
TEST_CASE("a host that comes back under another job has that job") {
  auto again = options("echo b:2 job=8", "true");
  again.added = {{"b", 2, "7"}};
  again.alive = "true";
  Lab lab(again);
  CHECK(lab.hosts.job_of("b") == "7");
  lab.wanted = 3;
  for (int poll = 0; poll < 50 && lab.hosts.job_of("b") == "7"; ++poll) lab.poll();
  CHECK(lab.hosts.job_of("b") == "8");
}

TEST_CASE("added hosts are reported, and an earlier process's hosts are offered and given back like its own") {
  std::vector<std::string> reported;
  auto with_memory = options("echo c:2", "echo \"$ELASTICTRAIN_HOSTS of $ELASTICTRAIN_HOST_JOBS\" >&2; exit 3");
  with_memory.added = {{"b", 2, "7"}};
  with_memory.on_change = [&](const launcher::HostsChange& change) {
    if (change.what == launcher::HostsChange::What::kCame) reported.push_back(launcher::hostfile_text(change.known));
  };
  Lab lab(with_memory);
  CHECK(lab.poll() == std::vector<Host>{{"a", 1}, {"b", 2, "7"}});
  CHECK(lab.hosts.job_of("b") == "7");
  CHECK(reported.empty());
  lab.wanted = 5;
  lab.poll();
  CHECK(reported == std::vector<std::string>{"b slots=2 job=7\nc slots=2\n"});
  lab.hosts.give_all_back();
  CHECK(lab.has_asked("ended with exit status 3: b c of 7"));
}

TEST_CASE("a host whose job does not run any more is not offered, and given back") {
  std::vector<launcher::HostsChange::What> happened;
  auto with_look = options("echo c:2", "echo \"$ELASTICTRAIN_HOSTS\" >&2; exit 3");
  with_look.added = {{"b", 2, "7"}, {"c", 2, "8"}, {"d", 2}};
  with_look.alive = "for job in $ELASTICTRAIN_HOST_JOBS; do [ $job = 7 ] || echo $job; done";
  with_look.on_change = [&](const launcher::HostsChange& change) { happened.push_back(change.what); };
  Lab lab(with_look);
  lab.poll();
  CHECK(lab.poll() == std::vector<Host>{{"a", 1}, {"c", 2, "8"}, {"d", 2}});
  CHECK(lab.has_asked("b is lost, or will be: its job 7 does not run any more"));
  lab.poll();
  CHECK(lab.has_asked("ended with exit status 3: b"));
  using What = launcher::HostsChange::What;
  CHECK(happened == std::vector<What>{What::kLost, What::kReturned});
}

TEST_CASE("where nobody can say which jobs run, all hosts are taken to be there, and that is said once") {
  auto with_look = options("", "");
  with_look.added = {{"b", 2, "7"}};
  with_look.alive = "echo no answer >&2; exit 1";
  with_look.alive_interval = std::chrono::milliseconds(0);
  Lab lab(with_look);
  for (int look = 0; look < 3; ++look) CHECK(lab.poll() == std::vector<Host>{{"a", 1}, {"b", 2, "7"}});
  CHECK(std::count_if(lab.messages.begin(), lab.messages.end(),
                      [](const std::string& text) { return text.find("no answer") != std::string::npos; }) == 1);
}

TEST_CASE("a host that is left is not offered, although the list beneath still has it") {
  auto with_memory = options("", ":");
  with_memory.settings.shrink_after = std::chrono::milliseconds(0);
  with_memory.added = {{"a", 1, "7"}};
  Lab lab(with_memory);
  lab.wanted = lab.workers = 0;
  CHECK(lab.poll().empty());
}

TEST_CASE("a request that is ended has the time to cancel what it asked for") {
  const elastictrain::test::TemporaryDirectory directory;
  const std::string script = directory.file("expand"), begun = directory.file("begun");
  const std::string cancelled = directory.file("cancelled");
  std::ofstream(script) << "trap 'sleep 1.2; : >" << cancelled << "; exit 1' TERM\n: >" << begun
                        << "\nwhile :; do sleep 0.1; done\n";
  Lab lab(options("sh " + script, ""));
  lab.wanted = 3;
  lab.hosts.poll([](elastictrain::Result<std::vector<Host>>) {});
  while (!std::filesystem::exists(begun)) lab.io.run_one_for(std::chrono::milliseconds(10));
  lab.hosts.give_all_back();
  CHECK(std::filesystem::exists(cancelled));
}
