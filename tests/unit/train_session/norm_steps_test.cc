#include "train/session/monitors.h"

#include <doctest/doctest.h>

#include <vector>

namespace elastictrain::session {
namespace {

std::vector<Step> measured(Step from, Step to, std::uint32_t world_size) {
  std::vector<Step> steps;
  for (Step step = from; step <= to; ++step) {
    if (measures_norms(step, world_size)) steps.push_back(step);
  }
  return steps;
}

TEST_CASE("norms of several workers are measured in each early step, and in fewer and fewer later ones") {
  CHECK(measured(1, 128, 2).size() == 128);
  CHECK(measured(129, 256, 2).size() == 64);
  CHECK(measured(257, 512, 2).size() == 64);
  CHECK(measured(513, 1024, 2).size() == 64);
  CHECK(measured(1025, 2048, 2).size() == 64);
  CHECK(measured(126, 133, 4) == std::vector<Step>{126, 127, 128, 129, 131, 133});
  CHECK(measured(1'000'000, 1'000'032, 4) == std::vector<Step>{1'000'001, 1'000'017});
}

TEST_CASE("a worker that trains alone is asked for halves in every 16th step from the first on") {
  CHECK(measured(1, 40, 1) == std::vector<Step>{1, 17, 33});
  CHECK(measured(2000, 2040, 1) == std::vector<Step>{2001, 2017, 2033});
}

}  // namespace
}  // namespace elastictrain::session
