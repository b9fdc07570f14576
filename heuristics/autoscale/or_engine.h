// Purpose: policy "or": the engine of Or, Zhang and Freedman 2020 as its code has it (algorithms A1 to A4), kept for
// comparison and for whoever wants exactly that.
//
// Every N steps it compares neighbouring sizes of all that it ever measured, at any distance: scaling efficiency above
// S, or, when a utility is given, utility gained above cost added. Growing while all pass; else probing below until the
// three lowest pass; else the last size before the first failure, staying 100 batches at the one behind it first. It
// never stops evaluating. A1 discards one batch after a change; here it is the warm-up of the view. A3 in batches of
// the current size and A3 in samples are the same, since the same batch stands on both sides.
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
  std::uint32_t least = 4;
  std::uint32_t most = 60;
  std::uint32_t min_consecutive_passes = 3;
  double min_batches_for_staying = 100;
};

struct OrStep {
  int change = 0;   // of the number of workers
  std::string why;  // "keep growing", "probe below", "settle", "collect more", "second size"
};

// Algorithms A4. `pass(k, l)` says whether growing from k to l pays; `sizes` has what was measured, `current` is now.
OrStep or_step(const std::map<std::uint32_t, SizeStatistics>& sizes, std::uint32_t current, const OrRules& rules,
               const std::function<bool(std::uint32_t, std::uint32_t)>& pass);

PolicySpec or_policy();

}  // namespace elastictrain::heuristics
