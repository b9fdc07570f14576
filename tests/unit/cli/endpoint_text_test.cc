#include "cli/config/checks.h"

#include <doctest/doctest.h>

#include <string>
#include <tuple>

using namespace elastictrain::cli;

TEST_CASE("an endpoint is a host, with or without a port") {
  for (const auto& [text, host, port] :
       {std::tuple("node0", "node0", 29400), std::tuple("node0:1234", "node0", 1234),
        std::tuple("10.0.0.1:65535", "10.0.0.1", 65535), std::tuple("[fd00::1]:80", "fd00::1", 80),
        std::tuple("[fd00::1]", "fd00::1", 29400), std::tuple("fd00::1", "fd00::1", 29400)}) {
    const auto endpoint = parse_endpoint(text);
    REQUIRE(endpoint.ok());
    CHECK(endpoint->host == host);
    CHECK(endpoint->port == port);
  }
}

TEST_CASE("what is no endpoint is refused") {
  for (const char* text :
       {"", ":", ":80", "a:", "a:0", "a:65536", "a:b", "-a:80", "[fd00::1", "[fd00::1]80", "a b:80"}) {
    CAPTURE(std::string(text));
    CHECK_FALSE(parse_endpoint(text).ok());
  }
}

TEST_CASE("loopback addresses lead nowhere else") {
  CHECK(is_loopback({"localhost", 1}));
  CHECK(is_loopback({"127.0.0.1", 1}));
  CHECK(is_loopback({"::1", 1}));
  CHECK_FALSE(is_loopback({"node0", 1}));
  CHECK_FALSE(is_loopback({"10.0.0.1", 1}));
}
