// Purpose: records about losses and hangs.
#pragma once

#include <string>

#include "supervisor/core/pure/records/record_fields.h"
#include "supervisor/protocol/ids.h"

namespace elastictrain::core::record {

struct Loss {
  std::string failure_class;
  std::uint64_t count = 0;
  std::string what;
};
ET_RECORD(Loss, "loss", "A loss was charged to the budget of its class; `count`: charged within the window.",
          ET_FIELD(failure_class).as("class"), ET_FIELD(count), ET_FIELD(what))

enum class HangVerdict : std::uint8_t { kSuspected, kWithdrawn, kGuilty };

template <HangVerdict>
struct HangRecord {
  WorkerId worker;
  std::string host;
  std::string place;
  Step step = 0;
  std::uint64_t still_ms = 0;
  std::uint64_t limit_ms = 0;
  std::uint64_t step_ms = 0;
  std::uint64_t quiet_ms = 0;
  std::uint64_t cpu_ms = 0;
  std::string reason;
};
using HangSuspected = HangRecord<HangVerdict::kSuspected>;
using HangWithdrawn = HangRecord<HangVerdict::kWithdrawn>;
using Hang = HangRecord<HangVerdict::kGuilty>;
ET_RECORD(HangSuspected, "hang_suspected", "The worker makes no progress, at a first look.", ET_FIELD(worker),
          ET_FIELD(host), ET_FIELD(place), ET_FIELD(step), ET_FIELD(still_ms), ET_FIELD(limit_ms), ET_FIELD(step_ms),
          ET_FIELD(quiet_ms), ET_FIELD(cpu_ms), ET_FIELD(reason))
ET_RECORD(HangWithdrawn, "hang_withdrawn", "The worker moved after all.", ET_FIELD(worker), ET_FIELD(host),
          ET_FIELD(place), ET_FIELD(step), ET_FIELD(still_ms), ET_FIELD(limit_ms), ET_FIELD(step_ms),
          ET_FIELD(quiet_ms), ET_FIELD(cpu_ms), ET_FIELD(reason))
ET_RECORD(Hang, "hang", "The worker makes no progress, at a second look: it is ended.", ET_FIELD(worker),
          ET_FIELD(host), ET_FIELD(place), ET_FIELD(step), ET_FIELD(still_ms), ET_FIELD(limit_ms), ET_FIELD(step_ms),
          ET_FIELD(quiet_ms), ET_FIELD(cpu_ms), ET_FIELD(reason))

struct Stuck {
  std::uint32_t times = 0;
  std::string place;
  Step step = 0;
  std::uint64_t still_ms = 0;
  std::uint64_t limit_ms = 0;
  std::uint64_t step_ms = 0;
  std::uint64_t quiet_ms = 0;
  std::uint64_t cpu_ms = 0;
  std::string reason;
};
ET_RECORD(Stuck, "stuck", "All workers wait for one another in the all-reduce; `times`: in a row.", ET_FIELD(times),
          ET_FIELD(place), ET_FIELD(step), ET_FIELD(still_ms), ET_FIELD(limit_ms), ET_FIELD(step_ms),
          ET_FIELD(quiet_ms), ET_FIELD(cpu_ms), ET_FIELD(reason))

struct PlainRestart {
  std::uint32_t count = 0;
  std::uint32_t max = 0;
  std::string reason;
};
ET_RECORD(PlainRestart, "plain_restart",
          "All processes of a program that does not use the library end and are started again.", ET_FIELD(count),
          ET_FIELD(max), ET_FIELD(reason))

using FailureRecords = RecordList<Loss, HangSuspected, HangWithdrawn, Hang, Stuck, PlainRestart>;

}  // namespace elastictrain::core::record
