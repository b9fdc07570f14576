// Simulated runs, one for each seed. ELASTICTRAIN_SEED=7 runs one seed and prints its trace (the last 200 lines; all
// with ELASTICTRAIN_STORY=1). ELASTICTRAIN_SEEDS=100000 runs that many, from ELASTICTRAIN_FIRST_SEED (1) on.
#define DOCTEST_CONFIG_NO_SHORT_MACRO_NAMES
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <limits>

#include "tests/simulation/life.h"

namespace {

using elastictrain::simulation::Life;

constexpr std::uint64_t kDefaultSeeds = 500;
constexpr std::size_t kLastLines = 200;

std::uint64_t from_environment(const char* name, std::uint64_t fallback) {
  const char* value = std::getenv(name);
  return value == nullptr ? fallback : std::strtoull(value, nullptr, 10);
}

void tell(std::uint64_t seed) {
  const bool all = from_environment("ELASTICTRAIN_STORY", 0) != 0;
  Life life(seed, all ? std::numeric_limits<std::size_t>::max() : kLastLines);
  life.live();
  for (const std::string& line : life.world().story.lines()) std::cerr << line << "\n";
  if (const auto& violation = life.violation()) {
    std::cerr << "seed " << seed << " breaks " << violation->check << ": " << violation->text << "\n";
  } else {
    std::cerr << "seed " << seed << " ends with status " << *life.world().exit_status << " ("
              << life.world().exit_reason << ") after " << life.world().truth.surviving_steps() << " steps and "
              << life.faults() << " faults\n";
  }
}

bool holds(std::uint64_t seed) {
  Life life(seed, 0);
  life.live();
  return !life.violation().has_value();
}

}  // namespace

DOCTEST_TEST_CASE("simulated runs keep every invariant and end") {
  if (const std::uint64_t seed = from_environment("ELASTICTRAIN_SEED", 0); seed != 0) {
    tell(seed);
    DOCTEST_CHECK(holds(seed));
    return;
  }
  const std::uint64_t first = from_environment("ELASTICTRAIN_FIRST_SEED", 1);
  const std::uint64_t seeds = from_environment("ELASTICTRAIN_SEEDS", kDefaultSeeds);
  const bool go_on = from_environment("ELASTICTRAIN_ALL_FAILURES", 0) != 0;
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    const bool good = holds(seed);
    if (!good && !go_on) tell(seed);
    if (go_on) {
      if (good) continue;
      Life life(seed, 0);
      life.live();
      std::cerr << "seed " << seed << " breaks " << life.violation()->check << ": " << life.violation()->text << "\n";
      DOCTEST_CHECK(good);
      continue;
    }
    DOCTEST_REQUIRE_MESSAGE(good, "seed " << seed);
  }
}
