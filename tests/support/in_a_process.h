// Purpose: runs code of which a test expects that it ends its process.
#pragma once

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <string>

#include "supervisor/protocol/check.h"

namespace elastictrain::test {

struct Ended {
  int status = 0;
  std::string output;

  // A violated assertion has ended it.
  bool violated(const std::string& sentence) const {
    return WIFEXITED(status) && WEXITSTATUS(status) == kViolationStatus &&
           output.find("must hold: " + sentence) != std::string::npos;
  }
};

// In a child, with its standard error in a pipe.
template <class Body>
Ended in_a_process(Body body) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  std::fflush(stdout);  // the child writes out what it has of it
  std::cout.flush();
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

}  // namespace elastictrain::test
