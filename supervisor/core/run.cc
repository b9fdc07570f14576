#include "supervisor/core/run.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "supervisor/core/pure/message_text.h"
#include "supervisor/protocol/check.h"

namespace elastictrain::core {
namespace {

// A plan carries the newest ones: a checkpoint older than all of these has been deleted long since.
constexpr std::size_t kMaxLineage = 256;

}  // namespace

Run::Run(RunSettings of_run, std::function<Token()> token_source)
    : settings(std::move(of_run)),
      make_token(std::move(token_source)),
      agent_detector(settings.suspect, settings.dead),
      hangs(settings.failures, 2 * settings.suspect, settings.prepare_timeout),
      health(settings.failures),
      losses{.budget = FailureBudget(settings.failures)} {
  desired.target = settings.leased ? settings.max_workers : settings.start_workers;
}

void Training::set_members(std::vector<WorkerId> next) {
  members = std::move(next);
  member_set = {members.begin(), members.end()};
  ET_CHECK(member_set.size() == members.size(), "a worker has one rank in a generation");
}

bool Training::remember(Generation number, Step first_step) {
  if (first_step == 0 || (!lineage.empty() && lineage.back().generation >= number)) return false;
  lineage.push_back({number, first_step});
  ET_CHECK(number <= issued, "a generation that began was issued before");
  if (lineage.size() > kMaxLineage) lineage.erase(lineage.begin());
  return true;
}

std::string Recovery::cause() const {
  if (reasons.empty()) return suspicion.empty() ? "a member is gone" : suspicion;
  std::string text;
  for (const std::string& reason : reasons) text += (text.empty() ? "" : "; ") + reason;
  return text;
}

std::vector<WorkerId> Recovery::living(const Roster& roster) const {
  std::vector<WorkerId> found;
  for (WorkerId id : order) {
    const Worker* worker = roster.worker(id);
    if (worker != nullptr && worker->trains()) found.push_back(id);
  }
  return found;
}

bool Recovery::holds_state(const Worker* worker) const {
  if (worker == nullptr || !worker->halted) return false;
  const protocol::WorkerHalted& answer = *worker->halted;
  if (!answer.has_state || !answer.in_loop || answer.committed_step != resume_step) return false;
  return answer.has_gradients || !gradients_are_left;
}

void end_recovery(Run& run) {
  run.out.cancel(run.recovery.halt_timer);
  run.out.cancel(run.startup.min_timer);
  run.recovery = Recovery{};
}

void apply_update(Run& run, const UpdatePlan& request) {
  RunSettings& settings = run.settings;
  UpdatePlan& update = run.desired.update;
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
  if (request.speeds) run.desired.speeds = *request.speeds;
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

void renew_desired(Run& run) {
  run.desired.hold = false;
  run.desired.unmet.clear();
  run.roster.clear_blame();
  run.change.attempts = 0;
  run.out.look_again();
}

void hold_size(Run& run, SizeHold size_hold) {
  DesiredState& desired = run.desired;
  run.out.cancel(desired.hold_timer);
  desired.held = size_hold;
  record::SizeHeld about{.target = desired.target, .for_ms = {}};
  if (size_hold.duration.count() > 0) {
    about.for_ms = static_cast<std::uint64_t>(size_hold.duration.count());
    desired.hold_until = run.out.now() + size_hold.duration;
    desired.hold_timer = run.out.arm({TimerKind::kHold, {}, {}}, desired.hold_until);
  }
  run.out.journal(about);
}

std::optional<std::uint64_t> DesiredState::hold_left_ms(Instant now) const {
  if (hold_timer == 0) return std::nullopt;
  const auto left = std::chrono::duration_cast<Millis>(hold_until - now);
  return static_cast<std::uint64_t>(std::max<Millis::rep>(1, left.count()));
}

void release_size(Run& run, const std::string& reason) {
  if (!run.desired.held) return;
  run.out.cancel(run.desired.hold_timer);
  run.desired.held.reset();
  run.out.journal(record::SizeReleased{reason});
}

void refuse_growth(Run& run, std::uint32_t size, const std::string& why) {
  run.desired.refused = GrowRefusal{size, why};
  run.out.journal(record::GrowRefused{size, why});
  run.out.tell(Tell::Level::kWarning, "grow refused: " + why + ". The run stays at " + counted(size, "worker") +
                                          "; `elastictrain resize` tries it again");
}

}  // namespace elastictrain::core
