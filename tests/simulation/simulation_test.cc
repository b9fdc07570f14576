// Simulated runs, one for each seed. ELASTICTRAIN_SEED=7 runs one seed and prints its trace (the last 200 lines; all
// with ELASTICTRAIN_TRACE=1). ELASTICTRAIN_SEEDS=100000 runs that many, from ELASTICTRAIN_FIRST_SEED (1) on.
#define DOCTEST_CONFIG_NO_SHORT_MACRO_NAMES
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <limits>

#include "tests/simulation/scenario.h"

namespace {

using elastictrain::simulation::Scenario;

constexpr std::uint64_t kDefaultSeeds = 2000;
constexpr std::size_t kLastLines = 200;

std::uint64_t from_environment(const char* name, std::uint64_t fallback) {
  const char* value = std::getenv(name);
  return value == nullptr ? fallback : std::strtoull(value, nullptr, 10);
}

void tell(std::uint64_t seed) {
  const bool all = from_environment("ELASTICTRAIN_TRACE", 0) != 0;
  Scenario scenario(seed, all ? std::numeric_limits<std::size_t>::max() : kLastLines);
  scenario.run();
  for (const std::string& line : scenario.world().trace.lines()) std::cerr << line << "\n";
  if (const auto& violation = scenario.violation()) {
    std::cerr << "seed " << seed << " breaks " << violation->check << ": " << violation->text << "\n";
  } else {
    std::cerr << "seed " << seed << " ends with status " << *scenario.world().exit_status << " ("
              << scenario.world().exit_reason << ") after " << scenario.world().oracle.surviving_steps()
              << " steps and " << scenario.faults() << " faults\n";
  }
}

bool holds(std::uint64_t seed) {
  Scenario scenario(seed, 0);
  scenario.run();
  return !scenario.violation().has_value();
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
      Scenario scenario(seed, 0);
      scenario.run();
      std::cerr << "seed " << seed << " breaks " << scenario.violation()->check << ": " << scenario.violation()->text
                << "\n";
      DOCTEST_CHECK(good);
      continue;
    }
    DOCTEST_REQUIRE_MESSAGE(good, "seed " << seed);
  }
}
