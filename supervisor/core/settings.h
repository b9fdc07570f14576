// Purpose: what the state machine must know about the run, as checked values (the config is parsed elsewhere).
#pragma once

#include <cstdint>
#include <string>

#include "supervisor/protocol/ids.h"

namespace elastictrain::core {

enum class AtLimit : std::uint8_t { kStop, kSplit };          // what growing does at max_global_batch
enum class LearningRateRule : std::uint8_t { kNone, kLinear, kSqrt };

struct BatchSettings {
  std::uint32_t per_worker = 32;
  std::uint64_t max_global = 0;  // 0: no limit
  AtLimit at_limit = AtLimit::kSplit;
};

struct LearningRateSettings {
  LearningRateRule rule = LearningRateRule::kNone;
  std::uint32_t ramp_steps = 0;
};

struct RunSettings {
  std::string run_name;
  std::uint32_t min_workers = 1;
  std::uint32_t start_workers = 1;
  std::uint32_t max_workers = 1;
  std::uint32_t spares = 0;  // started, ready workers that wait
  BatchSettings batch;
  LearningRateSettings learning_rate;

  Millis start_timeout{60'000};    // until min_workers are ready
  Millis ready_timeout{60'000};    // from spawn to ready; a joiner that misses it is dropped from the plan
  Millis prepare_timeout{10'000};  // from Prepare to the last Prepared
  Millis grace{30'000};            // between TERM and KILL, and for a drain as a whole
  Millis suspect{1'000};           // silence after which an agent is suspected
  Millis dead{3'000};              // … and after which it is given up
};

}  // namespace elastictrain::core
