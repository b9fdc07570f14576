#include "supervisor/protocol/check.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace elastictrain {
namespace {

struct Ended {
  int status = 0;
  std::string output;
};

// Runs `body` in a process of its own, with its standard error in a pipe.
template <class Body>
Ended in_a_process(Body body) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    body();
    ::_exit(0);
  }
  ::close(ends[1]);
  Ended ended;
  char byte = 0;
  while (::read(ends[0], &byte, 1) == 1) ended.output += byte;
  ::close(ends[0]);
  REQUIRE(::waitpid(child, &ended.status, 0) == child);
  return ended;
}

}  // namespace

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
