#include "supervisor/core/shortage.h"

#include <algorithm>
#include <chrono>

#include "supervisor/core/change.h"
#include "supervisor/core/ending.h"
#include "supervisor/core/failure_budget.h"
#include "supervisor/core/outbox.h"
#include "supervisor/core/planner.h"
#include "supervisor/core/reconciler.h"
#include "supervisor/core/recovery.h"
#include "supervisor/core/run_end.h"
#include "supervisor/core/settings.h"
#include "supervisor/core/startup.h"
#include "supervisor/core/swap_plan.h"
#include "supervisor/core/text.h"
#include "supervisor/core/training.h"
#include "supervisor/protocol/duration_text.h"

namespace elastictrain::core {

Shortage::Shortage(const RunSettings& settings, Roster& roster, Outbox& out, Training& training, Change& change,
                   Recovery& recovery, Startup& startup, RunEnd& end, Planner& planner, Reconciler& reconciler,
                   Ending& ending)
    : settings_(settings),
      roster_(roster),
      out_(out),
      training_(training),
      change_(change),
      recovery_(recovery),
      startup_(startup),
      end_(end),
      planner_(planner),
      reconciler_(reconciler),
      ending_(ending) {}

std::vector<WorkerId> Shortage::fill() {
  SwapInput input;
  for (WorkerId id : training_.members) input.members.push_back({id, roster_.worker(id)->place()});
  input.candidates = planner_.candidates();
  input.free = planner_.free_places();
  input.min = settings_.min_workers;
  input.want = std::max({planner_.target_size_of(), input.min, static_cast<std::uint32_t>(training_.members.size())});
  input.spares = settings_.spares;
  const SwapDecision decision = decide_swap(input);
  std::vector<WorkerId> next = reconciler_.carry_out(decision);
  std::erase_if(next, [&](WorkerId id) {
    const Worker& worker = *roster_.worker(id);
    return !training_.is_member(id) && (!worker.ready() || roster_.agent(worker.agent)->cut_off);
  });
  if (next.size() >= settings_.min_workers) return next;
  if (startup_.min_timer == 0) begin_to_wait();
  return {};
}

void Shortage::begin_to_wait() {
  startup_.min_timer = out_.arm({TimerKind::kWaitForMin, {}, {}}, out_.now() + settings_.failures.wait_for_min);
  const std::string text =
      left() + " and at least " + std::to_string(settings_.min_workers) + " must train: waiting for others";
  out_.journal(record::BelowMin{training_.members.size(), settings_.min_workers});
  out_.tell(Tell::Level::kWarning, text);
}

void Shortage::expired() {
  startup_.min_timer = 0;
  const bool waits = training_.restarting || (recovery_.active() && change_.stage == Stage::kGathering);
  if (!waits || end_.begun()) return;
  const std::string text = left() + ", at least " + std::to_string(settings_.min_workers) +
                           " must train, and no worker joined within " +
                           protocol::duration_text(settings_.failures.wait_for_min);
  out_.tell(Tell::Level::kError, text);
  ending_.begin_end(EndMode::kDraining, settings_.has_checkpoints ? kStatusComeAgain : kStatusUnavailable, text);
}

std::string Shortage::left() const {
  const std::size_t count = training_.members.size();
  return counted(count, "worker") + (count == 1 ? " is" : " are") + " left";
}

}  // namespace elastictrain::core
