// Purpose: what the state machine must know about the run, as checked values (the config is parsed elsewhere).
#pragma once

#include <cstdint>
#include <string>

#include "heuristics/batch_plan.h"
#include "heuristics/learning_rate.h"
#include "supervisor/protocol/ids.h"

namespace elastictrain::core {

using heuristics::AtLimit;
using heuristics::LearningRateRule;
using BatchSettings = heuristics::BatchRule;

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

  // The host source is asked again and again, so that waiting for hosts makes sense when too few answer at the start.
  bool hosts_may_appear = false;

  Millis start_timeout{60'000};    // until slots for start_workers are there; then the run starts with what is there
  // From spawn to ready; a worker that misses it is dropped from the plan. Applies once any worker of the run has said
  // WorkerHello: a program that never does is a plain one, which counts as running from its spawn.
  Millis ready_timeout{60'000};
  Millis prepare_timeout{10'000};  // from Prepare to the last Prepared
  Millis grace{30'000};            // between TERM and KILL, and for a drain as a whole
  Millis suspect{1'000};           // silence after which an agent is suspected
  Millis dead{3'000};              // … and after which it is given up
};

}  // namespace elastictrain::core
