#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>

#include "tests/skip.h"

namespace elastictrain::tests {
namespace {

bool skipped = false;

}  // namespace

void skip_aloud(const std::string& why) {
  skipped = true;
  std::printf("SKIPPED: %s\n", why.c_str());
}

}  // namespace elastictrain::tests

int main(int argc, char** argv) {
  const int status = doctest::Context(argc, argv).run();
  return status == 0 && elastictrain::tests::skipped ? elastictrain::tests::kSkipStatus : status;
}
