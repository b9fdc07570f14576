// The commands that bring hosts and take them back, where they do not even start.
#include "launcher/elastic_hosts.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "launcher/host_sources.h"

namespace launcher = elastictrain::launcher;
using launcher::Host;

namespace {

// More than one argument of a program may hold.
const std::string kTooLong = ": " + std::string(1 << 18, 'x');

struct Lab {
  explicit Lab(launcher::ElasticHostsOptions options)
      : hosts(
            io, launcher::static_hosts(io, {{"a", 1}}), std::move(options),
            [this] {
              return launcher::HostDemand{wanted, {{"a", 1, 1}}};
            },
            [this](const std::string& text) { said.push_back(text); }) {}

  std::vector<Host> poll() {
    std::vector<Host> answer;
    hosts.poll([&](elastictrain::Result<std::vector<Host>> result) { answer = *result; });
    io.restart();
    io.run();
    return answer;
  }

  bool has_said(const std::string& part) const {
    return std::any_of(said.begin(), said.end(),
                       [&](const std::string& text) { return text.find(part) != std::string::npos; });
  }

  asio::io_context io;
  std::uint32_t wanted = 1;
  std::vector<std::string> said;
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
  CHECK(lab.has_said("giving b back: exit 3"));
  CHECK(lab.has_said("exit 3 ended with exit status 3"));
}

TEST_CASE("a command that cannot be started is told with the reason, and the list stays what it is") {
  Lab lab(options(kTooLong, ""));
  lab.wanted = 2;
  CHECK(lab.poll() == std::vector<Host>{{"a", 1}});
  CHECK(lab.has_said("x cannot be run: cannot run \"sh\": Argument list too long"));
}

TEST_CASE("a command that cannot be started does not keep a run that ends") {
  Lab lab(options("echo b:2", kTooLong));
  lab.wanted = 3;
  lab.poll();
  lab.hosts.give_all_back();
  CHECK(lab.has_said("x cannot be run: cannot run \"sh\": Argument list too long"));
}
