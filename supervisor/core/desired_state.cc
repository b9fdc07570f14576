#include "supervisor/core/desired_state.h"

#include <algorithm>

#include "supervisor/core/text.h"

namespace elastictrain::core {

void DesiredState::apply(const UpdatePlan& request, RunSettings& settings) {
  if (request.program_batch) {
    update.program_batch = request.program_batch;
    settings.batch.per_worker = settings.base_per_worker = *request.program_batch;
  }
  if (request.program_max_global) {
    update.program_max_global = request.program_max_global;
    const std::uint64_t own = *request.program_max_global;
    settings.batch.max_global = settings.batch.max_global == 0 ? own : std::min(settings.batch.max_global, own);
    settings.batch.at_limit = heuristics::AtLimit::kSplit;
  }
  if (settings.base_per_worker == 0) settings.base_per_worker = settings.batch.per_worker;
  if (request.speeds) speeds = *request.speeds;
  if (request.per_worker) settings.batch.per_worker = *(update.per_worker = request.per_worker);
  if (request.learning_rate_factor)
    settings.learning_rate.factor = update.learning_rate_factor = request.learning_rate_factor;
  if (request.noise_scale) settings.learning_rate.noise_scale = *(update.noise_scale = request.noise_scale);
  if (request.topology) {
    settings.topology = *(update.topology = request.topology);
    settings.parents.clear();
    update.parents.reset();
  }
  if (request.parents) settings.parents = *(update.parents = request.parents);
  if (request.synchronization) settings.synchronization = *(update.synchronization = request.synchronization);
}

void DesiredState::hold_size(SizeHold size_hold, Outbox& out) {
  out.cancel(hold_timer);
  held = size_hold;
  record::SizeHeld about{.target = target, .for_ms = {}};
  if (size_hold.duration.count() > 0) {
    about.for_ms = static_cast<std::uint64_t>(size_hold.duration.count());
    hold_until = out.now() + size_hold.duration;
    hold_timer = out.arm({TimerKind::kHold, {}, {}}, hold_until);
  }
  out.journal(about);
}

std::optional<std::uint64_t> DesiredState::hold_left_ms(Instant now) const {
  if (hold_timer == 0) return std::nullopt;
  const auto left = std::chrono::duration_cast<Millis>(hold_until - now);
  return static_cast<std::uint64_t>(std::max<Millis::rep>(1, left.count()));
}

void DesiredState::release_size(const std::string& reason, Outbox& out) {
  if (!held) return;
  out.cancel(hold_timer);
  held.reset();
  out.journal(record::SizeReleased{reason});
}

void DesiredState::refuse_growth(std::uint32_t size, const std::string& why, Outbox& out) {
  refused = GrowRefusal{size, why};
  out.journal(record::GrowRefused{size, why});
  out.tell(Tell::Level::kWarning, "grow refused: " + why + ". The run stays at " + counted(size, "worker") +
                                      "; `elastictrain resize` tries it again");
}

void DesiredState::renew(Roster& roster, Change& change, Outbox& out) {
  hold = false;
  unmet.clear();
  roster.clear_blame();
  change.attempts = 0;
  out.look_again();
}

}  // namespace elastictrain::core
