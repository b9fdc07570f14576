// Purpose: how far from the best size a search ends, and in how many changes, on random curves that no smooth law
// describes, and with steps that are noisy for a while or many times as long now and then.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace elastictrain::bench {

struct Rough {
  std::string kind;
  std::string policy;
  int runs = 0;
  int off = 0;    // of them, by more than 3 %
  int moved = 0;  // of them, more than six times
  double mean_regret = 0;
  double worst_regret = 0;
  std::size_t most_changes = 0;
};

// Each kind, by efficiency and cost, on so many curves of that seed, from 1, 2 and 8 workers of 8.
std::vector<Rough> rough_curves(std::uint64_t seed, int curves);

}  // namespace elastictrain::bench
