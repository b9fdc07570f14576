#include "launcher/hostfile.h"

#include <doctest/doctest.h>

using elastictrain::launcher::Host;
using elastictrain::launcher::is_host_name;
using elastictrain::launcher::parse_host_list;
using elastictrain::launcher::parse_hostfile;

TEST_CASE("hosts that are written as a host file are read as the same hosts") {
  const std::vector<Host> hosts{{"alpha", 4}, {"fd00::1", 3}, {"10.0.0.7", 1}, {"helper", 2, "43"}};
  CHECK(*parse_hostfile(elastictrain::launcher::hostfile_text(hosts), "text") == hosts);
  CHECK(elastictrain::launcher::hostfile_text({}).empty());
}

TEST_CASE("a host file takes every documented form") {
  const auto hosts = parse_hostfile(
      "# cluster\n"
      "alpha slots=4\n"
      "  beta:2   # comment\r\n"
      "\n"
      "gamma\n"
      "[fd00::1]:3\n"
      "fd00::2\n"
      "[fd00::3] slots=5\n"
      "delta slots=2 max_slots=8\n"
      "10.0.0.7:6\n"
      "helper slots=2 job=43",
      "hosts");
  REQUIRE(hosts.ok());
  CHECK(*hosts == std::vector<Host>{{"alpha", 4},
                                    {"beta", 2},
                                    {"gamma", 1},
                                    {"fd00::1", 3},
                                    {"fd00::2", 1},
                                    {"fd00::3", 5},
                                    {"delta", 2},
                                    {"10.0.0.7", 6},
                                    {"helper", 2, "43"}});
}

TEST_CASE("repeated lines of one host add their slots up") {
  const auto hosts = parse_hostfile("a\nb\na\na:2\n", "nodes");
  REQUIRE(hosts.ok());
  CHECK(*hosts == std::vector<Host>{{"a", 4}, {"b", 1}});
}

TEST_CASE("a bad line is named by file and line with what is wrong") {
  const auto message = [](const char* text) {
    const auto hosts = parse_hostfile(text, "my/hosts");
    REQUIRE_FALSE(hosts.ok());
    return hosts.error().message;
  };
  CHECK(message("a\nb slots=x\n") == "my/hosts:2: slots must be a number from 1 to 4096, not \"x\"");
  CHECK(message("a:0") == "my/hosts:1: slots must be a number from 1 to 4096, not \"0\"");
  CHECK(message("a:99999").find("from 1 to 4096") != std::string::npos);
  CHECK(message("a:-1").find("from 1 to 4096") != std::string::npos);
  CHECK(message("a slot=2") == "my/hosts:1: \"slot=2\" is not known; write slots=N");
  CHECK(message("\n\n-oProxyCommand=evil") == "my/hosts:3: \"-oProxyCommand=evil\" is not a host name");
  CHECK(message("a;b") == "my/hosts:1: \"a;b\" is not a host name");
  CHECK(message("$(x)").find("is not a host name") != std::string::npos);
  CHECK(message("a:").find("slots are missing") != std::string::npos);
  CHECK(message("[fd00::1").find("missing ]") != std::string::npos);
  CHECK(message("[fd00::1]4").find("expected :slots") != std::string::npos);
  CHECK(message("[fd00::1]:").find("expected :slots") != std::string::npos);
  CHECK(message("[]").find("is not a host name") != std::string::npos);
  CHECK(message("a\x01").find("\"a?\" is not a host name") != std::string::npos);
  CHECK(message("bob@a slots=2").find("leave out the user, and name it once: --ssh-user bob") != std::string::npos);
  CHECK(message("bob@-o") == "my/hosts:1: \"bob@-o\" is not a host name");
  CHECK(message("a:4096\na:1").find("in total") != std::string::npos);
}

TEST_CASE("an inline list takes the same forms") {
  const auto hosts = parse_host_list("a:2,b, [fd00::1]:4 ,fd00::2");
  REQUIRE(hosts.ok());
  CHECK(*hosts == std::vector<Host>{{"a", 2}, {"b", 1}, {"fd00::1", 4}, {"fd00::2", 1}});
  for (const char* bad : {"", "  ", "a,,b", "a,", ",a", "a:b", "-a", "a b"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_host_list(bad).ok());
  }
}

TEST_CASE("a host name can never be an option or hold what a shell reads") {
  CHECK(is_host_name("node-1.cluster_a.example"));
  CHECK(is_host_name("fe80::1%eth0"));
  for (const char* bad : {"", "-v", "a b", "a'b", "a\"b", "a\\b", "user@host", "a/b", "a\nb", "ä"}) {
    CAPTURE(bad);
    CHECK_FALSE(is_host_name(bad));
  }
  CHECK_FALSE(is_host_name(std::string(254, 'a')));
}

TEST_CASE("a file of 200,000 hosts is read, the second half of which are those of the first again") {
  std::string text;
  for (int line = 0; line < 200'000; ++line) text += "node" + std::to_string(line % 100'000) + ":2\n";
  const auto hosts = parse_hostfile(text, "text");
  REQUIRE(hosts.ok());
  CHECK(hosts->size() == 100'000);
  CHECK(hosts->back() == Host{"node99999", 4});
}
