#include "supervisor/core/requests.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "supervisor/core/changing.h"
#include "supervisor/core/ending.h"
#include "supervisor/core/hosts.h"
#include "supervisor/core/pure/message_text.h"
#include "supervisor/core/pure/swap_plan.h"
#include "supervisor/core/reconciling.h"
#include "supervisor/core/recovering.h"
#include "supervisor/core/workers.h"
#include "supervisor/protocol/display_text.h"
#include "supervisor/protocol/names.h"

namespace elastictrain::core {
namespace {

std::string change_of(const UpdatePlan& event) {
  std::vector<std::string> parts;
  if (event.parents) parts.push_back("sum along the tree " + protocol::text_of({}, *event.parents));
  if (event.topology) parts.push_back("sum along " + std::string(protocol::name_of(*event.topology)));
  if (event.synchronization) parts.push_back("train by " + std::string(protocol::name_of(*event.synchronization)));
  if (event.learning_rate_factor) parts.emplace_back("change the learning rate");
  if (event.noise_scale) parts.emplace_back("let the learning rate follow the noise of the gradients");
  if (parts.empty() || event.speeds || event.per_worker) parts.emplace_back("redistribute the samples of a step");
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

// Relative to the time after which a silent host is suspected: by then all other receivers of TERM have reported it.
constexpr int kSuspectTimes = 2;

enum class NoticeAnswer : std::uint8_t { kOneOfAll, kReplace, kDismiss };

}  // namespace

static void accept(Run& run, std::uint64_t request, const std::string& text) {
  if (request == 0) return;
  run.out.journal(record::Accepted{request, text});
  run.out.emit(Reply{request, true, text});
}

void on(Run& run, const Stop& event) {
  run.out.journal(record::StopRequested{event.request, reason_of(event.cause)});
  if (run.end.suspended) {  // it is not to come back
    run.end.suspended = false;
    run.end.status = status_of(event.cause);
    run.end.reason = reason_of(event.cause);
    accept(run, event.request, "stopping: the run was about to be suspended");
    return;
  }
  if (run.end.begun()) {
    accept(run, event.request, "the run is already ending: " + run.end.reason);
    limit_finish(run);
    return;
  }
  accept(run, event.request, run.training.generation == 0 ? "stopping" : "stopping at the next step boundary");
  want_end(run, EndMode::kDraining, status_of(event.cause), reason_of(event.cause));
}

void on(Run& run, const StopNow& event) {
  run.out.journal(record::StopNowRequested{});
  if (run.end.mode == EndMode::kNow) return;
  const bool known = run.end.mode == EndMode::kDraining && !run.end.suspended;
  run.end.suspended = false;
  want_end(run, EndMode::kNow, known ? run.end.status : status_of(event.cause),
           known ? run.end.reason : reason_of(event.cause));
}

void refuse(Run& run, std::uint64_t request, const std::string& text) {
  if (request == 0) return;
  if (!run.end.over) run.out.journal(record::Refused{request, text});
  run.out.emit(Reply{request, false, text});
}

std::string refusal(const Run& run, Phase phase) {
  if (phase == Phase::kStarting && run.startup.is_plain()) {
    return "the program has not joined the run: try again when it has; of a program that never does (one that does not "
           "use the library) no worker can be replaced";
  }
  if (phase == Phase::kStarting) return "the run is still starting: try again when it trains";
  if (phase == Phase::kEnded) return "the run has ended";
  return "the run is ending: " + run.end.reason;
}

static std::string outside_limits(const Run& run, std::uint32_t workers) {
  return counted(workers, "worker") + (workers == 1 ? " is" : " are") + " outside the limits of this run, " +
         std::to_string(run.settings.min_workers) + " to " + std::to_string(run.settings.max_workers) +
         " (workers.min and workers.max)";
}

static std::string hold_text(const Run& run, const Resize& event) {
  if (event.request == 0 || !run.settings.policy_sizes) return "";
  if (event.hold_for.count() == 0) return "; held against the policy until `resize auto`";
  const double seconds = std::chrono::duration<double>(event.hold_for).count();
  return "; held against the policy for " + protocol::duration_text(seconds) + ", or until `resize auto`";
}

static void give_size_back(Run& run, const Resize& event) {
  run.out.journal(record::ResizeRequested{event.request, event.target, event.reason});
  if (!run.settings.policy_sizes) {
    return refuse(run, event.request, "no policy decides on the size of this run (policy.name); say how many workers");
  }
  const bool was_held = run.desired.held.has_value();
  release_size(run, "a user gave it back");
  accept(run, event.request,
         was_held ? "the policy decides on the size again" : "the policy decides on the size already");
}

static std::string resize_text(const Run& run, std::uint32_t target) {
  const auto size = static_cast<std::uint32_t>(newest_members(run).size());
  const std::string sizes = "from " + std::to_string(size) + " to " + std::to_string(target);
  if (run.training.generation == 0 && run.startup.is_plain()) {
    return "the size becomes " + std::to_string(target) +
           " once the program has joined the run; a program that never does keeps the size it has";
  }
  if (run.training.generation == 0) return "the run starts with " + std::to_string(target);
  std::string text = target > size ? "growing " + sizes : "shrinking " + sizes;
  if (target == size) text = "staying at " + std::to_string(target);
  if (target > size_limit(run)) {
    return text + "; the limit of the global batch allows " + std::to_string(size_limit(run)) + " for now";
  }
  const std::uint32_t slots = run.roster.usable_slots();
  if (run.settings.leased && target > run.desired.lease.slots) {
    text += "; the cluster leases " + counted(run.desired.lease.slots, "slot") + " now";
  } else if (target > size && target > slots) {
    text += "; the hosts have " + counted(slots, "slot") + " now, the rest follows when hosts appear";
  }
  return text;
}

void on(Run& run, const Resize& event) {
  if (event.by_policy && run.desired.held) return;
  if (event.target == 0) return give_size_back(run, event);
  run.out.journal(record::ResizeRequested{event.request, event.target, event.reason});
  if (event.target < run.settings.min_workers || event.target > run.settings.max_workers) {
    return refuse(run, event.request, outside_limits(run, event.target));
  }
  if (event.request != 0) {
    run.desired.failed_joins = 0;
    run.desired.refused.reset();
  }
  const std::string text = resize_text(run, event.target);
  run.desired.target = event.target;
  run.desired.target_reason = event.reason.empty() ? "requested by the user" : event.reason;
  // Of a policy or the program, which wait for no answer: a later supervisor must know it all the same.
  if (event.request == 0) run.out.journal(record::Target{run.desired.target, run.desired.target_reason});
  renew_desired(run);
  // The order in the journal is that of the effects: a hold is that of the size before it.
  accept(run, event.request, text + hold_text(run, event));
  if (event.request != 0 && run.settings.policy_sizes) hold_size(run, {event.hold_for});
}

void on(Run& run, const ReplaceWorker& event) {
  run.out.journal(record::ReplaceRequested{.request = event.request, .rank = event.rank, .host = {}});
  const auto& members = newest_members(run);
  if (event.rank >= members.size()) {
    refuse(run, event.request,
           "there is no rank " + std::to_string(event.rank) + ": the run has ranks 0 to " +
               std::to_string(members.size() - 1));
    return;
  }
  const WorkerId id = members[event.rank];
  const Worker* worker = run.roster.worker(id);
  if (worker == nullptr || worker->finished()) {
    refuse(run, event.request, "rank " + std::to_string(event.rank) + " has finished");
    return;
  }
  const std::string text = "replacing " + name_of(run, *worker);
  run.desired.replacements.try_emplace(
      id, event.other_host ? protocol::ChangeKind::kMigrate : protocol::ChangeKind::kReplace);
  renew_desired(run);
  accept(run, event.request, text);
}

// A noise scale alone that leaves the present learning rate as it is: only later plans use it.
static bool is_for_later(const Run& run, const UpdatePlan& event) {
  constexpr double kSameFactor = 0.01;
  if (event.speeds || event.per_worker || event.learning_rate_factor || event.topology || event.parents ||
      event.synchronization || !event.noise_scale) {
    return false;
  }
  std::uint64_t batch = 0;
  for (WorkerId id : run.training.members) {
    const Worker* worker = run.roster.worker(id);
    batch += worker == nullptr ? 0 : worker->share;
  }
  return std::abs(core::learning_rate_factor(run.settings, batch) - run.training.learning_rate_factor) <=
         kSameFactor * run.training.learning_rate_factor;
}

void on(Run& run, const UpdatePlan& event) {
  const std::string reason = event.reason.empty() ? "requested by the user" : event.reason;
  run.out.journal(record::PlanUpdateRequested{event.request, reason});
  if (event.per_worker && *event.per_worker == 0)
    return refuse(run, event.request, "a batch of 0 samples trains nothing");
  const auto is_odd = [](double value) { return !(value > 0) || !std::isfinite(value); };
  const bool odd = event.speeds && std::any_of(event.speeds->begin(), event.speeds->end(),
                                               [&](const auto& entry) { return is_odd(entry.second); });
  if (odd) return refuse(run, event.request, "speeds must be above 0");
  if (event.learning_rate_factor && is_odd(*event.learning_rate_factor)) {
    return refuse(run, event.request, "a learning-rate factor must be above 0");
  }
  if (event.noise_scale && is_odd(*event.noise_scale))
    return refuse(run, event.request, "a noise scale must be above 0");
  if (event.parents) {
    if (auto tree = protocol::check_tree(*event.parents, run.training.members.size()); !tree) {
      return refuse(run, event.request, tree.error().message);
    }
  }
  apply_update(run, event);
  record::PlanUpdated updated;
  write_update(run.desired.update, updated);
  run.out.journal(std::move(updated));
  const std::string what = change_of(event);
  if (is_for_later(run, event)) return accept(run, event.request, what);
  run.desired.update_reason = what + ": " + reason;
  renew_desired(run);
  accept(run, event.request, what);
}

static void refuse_program(Run& run, const std::string& why) {
  run.out.journal(record::ProgramRefused{why});
  run.out.tell(Tell::Level::kWarning, "the program's request was refused: " + why);
}

// A program may request the same in every step: a value that is already in effect or already desired changes nothing.
void on_message(Run& run, Worker& worker, const protocol::WorkerRequest& message) {
  const bool trains = run.training.generation != 0 && !run.end.begun();
  if (!run.training.is_member(worker.id) || !trains) return;
  const auto shape = protocol::topology_choice(message.topology);
  const auto synchronization = protocol::synchronization_named(message.synchronization);
  const std::string reason = "requested by the program";
  UpdatePlan update{.reason = reason};
  if (message.per_worker != 0 && message.per_worker != run.settings.batch.per_worker) {
    update.per_worker = message.per_worker;
  }
  const double factor = message.learning_rate_factor;
  if (factor != 0 && factor != run.settings.learning_rate.factor) update.learning_rate_factor = factor;
  const bool new_shape = shape && (shape->parents != run.settings.parents ||
                                   (shape->parents.empty() && shape->topology != run.settings.topology));
  if (new_shape && shape->parents.empty()) update.topology = shape->topology;
  if (new_shape && !shape->parents.empty()) update.parents = shape->parents;
  if (synchronization && synchronization != run.settings.synchronization) update.synchronization = synchronization;
  const bool updates_plan = update.per_worker || update.learning_rate_factor || new_shape || update.synchronization;
  const bool resizes = message.workers != 0 && message.workers != run.desired.target;
  const bool is_odd = !std::isfinite(factor) || factor < 0;
  const bool fits = message.workers == 0 ||
                    (message.workers >= run.settings.min_workers && message.workers <= run.settings.max_workers);
  if (!updates_plan && !resizes) return;
  run.out.journal(record::ProgramRequested{worker.id, message.workers});
  if (is_odd) return refuse_program(run, "a learning-rate factor must be above 0");
  if (!fits) return refuse_program(run, outside_limits(run, message.workers));
  if (resizes) on(run, Resize{.target = message.workers, .reason = reason});
  if (updates_plan) on(run, update);
}

void on(Run& run, const ReplaceHost& event) {
  run.out.journal(record::ReplaceRequested{.request = event.request, .rank = {}, .host = event.host});
  const Agent* agent = run.roster.agent_on(event.host);
  if (agent == nullptr) {
    refuse(run, event.request, "there is no host " + event.host + " in this run");
    return;
  }
  std::vector<WorkerId> moved;
  for (WorkerId id : newest_members(run)) {
    if (agent->workers.contains(id)) moved.push_back(id);
  }
  if (moved.empty()) {
    refuse(run, event.request, "no worker of the run is on host " + event.host);
    return;
  }
  for (WorkerId id : moved) run.desired.replacements[id] = protocol::ChangeKind::kMigrate;
  renew_desired(run);
  accept(run, event.request, "moving " + counted(moved.size(), "worker") + " of host " + event.host);
}

void on(Run& run, const DrainHost& event) {
  run.out.journal(record::DrainRequested{event.request, event.host});
  Agent* agent = run.roster.agent_of_host(event.host);
  if (agent == nullptr) {
    refuse(run, event.request, "there is no host " + event.host + " in this run");
    return;
  }
  if (agent->drain) {
    accept(run, event.request,
           "host " + event.host + (agent->drained() ? " is drained already" : " is already being drained"));
    return;
  }
  const std::uint32_t others = run.roster.usable_slots() - (agent->usable() ? agent->usable_slots() : 0);
  if (others < run.settings.min_workers) {
    refuse(run, event.request,
           "without host " + event.host + " the others have " + counted(others, "slot") + ", and at least " +
               counted(run.settings.min_workers, "worker") + " must train");
    return;
  }
  agent->drain = true;
  if (agent->link == Link::kLaunching) stop_agent(run, *agent);
  renew_desired(run);
  accept(run, event.request, "draining host " + event.host);
}

// Empty: it can be undrained.
static std::string why_not_undrained(const std::string& host, const Agent* agent) {
  if (agent == nullptr) return "there is no host " + host + " in this run";
  if (!agent->drain) return "host " + host + " is not drained";
  if (agent->noticed) {
    return "host " + host +
           " leaves by its own notice, not by a drain: it is used again when it has been off the list of hosts";
  }
  if (!agent->offered) return "host " + host + " is not on the list of hosts: it is used when it is there again";
  return "";
}

void on(Run& run, const UndrainHost& event) {
  run.out.journal(record::UndrainRequested{event.request, event.host});
  Agent* agent = run.roster.agent_of_host(event.host);
  if (const std::string why = why_not_undrained(event.host, agent); !why.empty())
    return refuse(run, event.request, why);
  undrain_host(run, *agent);
  accept(run, event.request, "workers may be started on host " + event.host + " again");
}

static void expect_notices(Run& run) {
  run.out.cancel(run.notices_timer);
  run.notices_timer = run.out.arm({TimerKind::kNotices, {}, {}}, run.out.now() + kSuspectTimes * run.settings.suspect);
}

static bool all_noticed(const Run& run) {
  const auto& members = newest_members(run);
  return members.size() > 1 && std::all_of(members.begin(), members.end(), [&](WorkerId id) {
           const Worker* worker = run.roster.worker(id);
           return worker != nullptr && worker->noticed == Noticed::kReceived;
         });
}

static NoticeAnswer answer_to(const Worker& worker, bool all) {
  if (all) return NoticeAnswer::kOneOfAll;
  return worker.assigned() ? NoticeAnswer::kReplace : NoticeAnswer::kDismiss;
}

static void act_on_notice(Run& run, NoticeAnswer answer, Worker& worker) {
  if (answer == NoticeAnswer::kReplace) {
    run.desired.replacements.try_emplace(worker.id, protocol::ChangeKind::kReplace);
    renew_desired(run);
  }
  if (answer != NoticeAnswer::kDismiss) return;
  if (run.change.plans(worker.id) && run.change.stage == Stage::kPreparing)
    run.change.unwanted = name_of(run, worker) + " got TERM";
  dismiss(run, worker, "it got TERM");
  run.out.look_again();
}

static std::string notice_text(NoticeAnswer answer) {
  switch (answer) {
    case NoticeAnswer::kOneOfAll:
      return "so did all others; they leave when their hosts or the run get it";
    case NoticeAnswer::kReplace:
      return "another worker takes its place";
    case NoticeAnswer::kDismiss:
      return "it leaves, and another one is started";
  }
  return {};
}

void answer_notices(Run& run) {
  run.notices_timer = 0;
  if (run.end.begun()) return;
  const bool all = all_noticed(run);
  bool look_again = false;
  for (auto& [id, worker] : run.roster.workers()) {
    if (worker.noticed != Noticed::kReceived || worker.dying() || worker.finished()) continue;
    if (is_displaced(run, worker)) {  // it leaves with its host, unless that comes back
      look_again = true;
      continue;
    }
    worker.noticed = Noticed::kAnswered;
    const NoticeAnswer answer = answer_to(worker, all);
    run.out.journal(record::TermAnswered{id, notice_text(answer)});
    run.out.tell(Tell::Level::kWarning, name_of(run, worker) + " got TERM: " + notice_text(answer));
    act_on_notice(run, answer, worker);
  }
  if (look_again) expect_notices(run);
}

static void got_term(Run& run, Worker& worker) {
  if (worker.noticed != Noticed::kNo) return;
  worker.noticed = Noticed::kReceived;
  expect_notices(run);
}

void on_message(Run& run, Worker& worker, const protocol::WorkerNote& message) {
  run.out.journal(record::Note{worker.id, message.key, message.value});
  if (message.key == protocol::kTermNote) got_term(run, worker);
  if (message.key == protocol::kHeldNote) device_holds(run, worker, message.value);
  if (message.key != protocol::kNotesDropped) return;
  run.out.tell(Tell::Level::kWarning, name_of(run, worker) + ": " + message.value);
}

}  // namespace elastictrain::core
