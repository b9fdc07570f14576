// Purpose: a sharing policy from outside for a simulated cluster. It takes its time, gives random slots to some of the
// jobs, packs those that it may, answers nonsense, and fails for good; once all is well it gives equal shares.
#pragma once

#include <cstdint>
#include <random>

#include "supervisor/cluster/core/cluster.h"

namespace elastictrain::cluster_core::test {

class OwnPolicy {
 public:
  explicit OwnPolicy(std::uint64_t seed) : rng_(seed) {}

  double thinks_s() { return uniform(0, 1.5); }
  PolicyAnswered answer(const AskPolicy& ask, bool is_well);
  std::uint64_t answers = 0;

 private:
  double uniform(double low, double high) { return std::uniform_real_distribution<>(low, high)(rng_); }
  bool chance(double p) { return uniform(0, 1) < p; }
  heuristics::sharing::Decision at_random(const heuristics::sharing::View& view);

  std::mt19937_64 rng_;
};

}  // namespace elastictrain::cluster_core::test
