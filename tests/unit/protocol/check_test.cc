#include "supervisor/protocol/check.h"

#include <doctest/doctest.h>

#include <cstdio>

#include "tests/support/in_a_process.h"

namespace elastictrain {

using test::in_a_process;

TEST_CASE("an assertion that holds changes nothing") {
  const auto ended = in_a_process([] { ET_CHECK(1 + 1 == 2, "numbers add up"); });
  CHECK(WEXITSTATUS(ended.status) == 0);
  CHECK(ended.output.empty());
}

TEST_CASE("a violated assertion names its place and its sentence and ends the process with status 70") {
  const auto ended = in_a_process([] { ET_CHECK(1 + 1 == 3, "numbers add up"); });
  CHECK(WIFEXITED(ended.status));
  CHECK(WEXITSTATUS(ended.status) == 70);
  CHECK(ended.output.find("protocol/check_test.cc:") != std::string::npos);
  CHECK(ended.output.find("must hold: numbers add up") != std::string::npos);
}

TEST_CASE("the observer sees a violation once, even if it violates an assertion itself") {
  const auto ended = in_a_process([] {
    set_violation_observer([](const char* text) {
      std::fprintf(stderr, "observed %s\n", text);
      ET_CHECK(false, "observers are right");
    });
    ET_CHECK(false, "the first sentence");
  });
  CHECK(WEXITSTATUS(ended.status) == 70);
  CHECK(ended.output.find("observed protocol/check_test.cc:") != std::string::npos);
  CHECK(ended.output.find("must hold: observers are right") != std::string::npos);
  CHECK(ended.output.find("observed", ended.output.find("observed") + 1) == std::string::npos);
}

}  // namespace elastictrain
