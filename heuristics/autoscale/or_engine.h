// Purpose: policy "or": the engine of Or, Zhang and Freedman 2020 as published in code (algorithms A1 to A4), for
// comparison and for users who want exactly this engine.
//
// Every N steps it compares neighbouring sizes among all that it ever measured, at any distance: scaling efficiency
// above S, or, with a utility, utility gained above cost added. It grows while all pairs pass, else probes below until
// the three lowest pass, else chooses the last size before the first failure, after 100 batches at the size after it.
// It never stops evaluating. A1 discards one batch after a change; here that is the view's warm-up. A3 in batches of
// the current size and A3 in samples are the same, since both sides have the same batch. While the workers of a growth
// start, the rule is applied to the steps since, and a growth that it no longer asks for is taken back. The first one
// never is: with one measured size the rule compares nothing, and asks for a second one whatever the steps are.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "heuristics/autoscale/throughput_table.h"
#include "heuristics/policy/policy.h"

namespace elastictrain::heuristics {

struct OrRules {
  std::uint32_t increment = 4;  // d
  std::uint32_t min = 4;
  std::uint32_t max = 60;
  std::uint32_t min_consecutive_passes = 3;
  double min_batches_for_staying = 100;
};

struct OrStep {
  int change = 0;   // of the number of workers
  std::string why;  // "keep growing", "probe below", "settle", "collect more", "second size"
};

// Algorithms A4. `pass(k, l)` tells whether growing from k to l pays. `sizes` are the measured ones, `current` is the
// present one.
OrStep or_step(const std::map<std::uint32_t, SizeStatistics>& sizes, std::uint32_t current, const OrRules& rules,
               const std::function<bool(std::uint32_t, std::uint32_t)>& pass);

PolicySpec or_policy();

}  // namespace elastictrain::heuristics
