#include "supervisor/core/requests.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "supervisor/core/change.h"
#include "supervisor/core/desired_state.h"
#include "supervisor/core/ending.h"
#include "supervisor/core/host_list.h"
#include "supervisor/core/outbox.h"
#include "supervisor/core/planner.h"
#include "supervisor/core/run_end.h"
#include "supervisor/core/settings.h"
#include "supervisor/core/startup.h"
#include "supervisor/core/stop_cause.h"
#include "supervisor/core/swap_plan.h"
#include "supervisor/core/text.h"
#include "supervisor/core/training.h"
#include "supervisor/core/worker_control.h"
#include "supervisor/protocol/duration_text.h"
#include "supervisor/protocol/topology_choice.h"

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

}  // namespace

Requests::Requests(RunSettings& settings, Roster& roster, Outbox& out, DesiredState& desired, Startup& startup,
                   Training& training, Change& change, RunEnd& end, Planner& planner, WorkerControl& workers,
                   HostList& hosts, Ending& ending)
    : settings_(settings),
      roster_(roster),
      out_(out),
      desired_(desired),
      startup_(startup),
      training_(training),
      change_(change),
      end_(end),
      planner_(planner),
      workers_(workers),
      hosts_(hosts),
      ending_(ending) {}

void Requests::on(const Stop& event) {
  out_.journal(record::StopRequested{event.request, reason_of(event.cause)});
  if (end_.suspended) {  // it is not to come back
    end_.suspended = false;
    end_.status = status_of(event.cause);
    end_.reason = reason_of(event.cause);
    accept(event.request, "stopping: the run was about to be suspended");
    return;
  }
  if (end_.begun()) {
    accept(event.request, "the run is already ending: " + end_.reason);
    ending_.limit_finish();
    return;
  }
  accept(event.request, training_.generation == 0 ? "stopping" : "stopping at the next step boundary");
  ending_.begin_end(EndMode::kDraining, status_of(event.cause), reason_of(event.cause));
}

void Requests::on(const StopNow& event) {
  out_.journal(record::StopNowRequested{});
  if (end_.mode == EndMode::kNow) return;
  const bool known = end_.mode == EndMode::kDraining && !end_.suspended;
  end_.suspended = false;
  ending_.begin_end(EndMode::kNow, known ? end_.status : status_of(event.cause),
                    known ? end_.reason : reason_of(event.cause));
}

void Requests::accept(std::uint64_t request, const std::string& text) {
  if (request == 0) return;
  out_.journal(record::Accepted{request, text});
  out_.emit(Reply{request, true, text});
}

void Requests::refuse(std::uint64_t request, const std::string& text) {
  if (request == 0) return;
  if (!end_.over) out_.journal(record::Refused{request, text});
  out_.emit(Reply{request, false, text});
}

std::string Requests::refusal(Phase phase) const {
  if (phase == Phase::kStarting && startup_.is_plain()) {
    return "the program has not joined the run: try again when it has; of a program that never does (one that does not "
           "use the library) no worker can be replaced";
  }
  if (phase == Phase::kStarting) return "the run is still starting: try again when it trains";
  if (phase == Phase::kEnded) return "the run has ended";
  return "the run is ending: " + end_.reason;
}

std::string Requests::outside_limits(std::uint32_t workers) const {
  return counted(workers, "worker") + (workers == 1 ? " is" : " are") + " outside the limits of this run, " +
         std::to_string(settings_.min_workers) + " to " + std::to_string(settings_.max_workers) +
         " (workers.min and workers.max)";
}

void Requests::on(const Resize& event) {
  if (event.by_policy && desired_.held) return;
  if (event.target == 0) return give_back(event);
  out_.journal(record::ResizeRequested{event.request, event.target, event.reason});
  if (event.target < settings_.min_workers || event.target > settings_.max_workers) {
    return refuse(event.request, outside_limits(event.target));
  }
  if (event.request != 0) {
    desired_.failed_joins = 0;
    desired_.refused.reset();
  }
  const std::string text = resize_text(event.target);
  desired_.target = event.target;
  desired_.target_reason = event.reason.empty() ? "requested by the user" : event.reason;
  desired_.renew(roster_, change_, out_);
  // The order in the journal is that of the effects: a hold is that of the size before it.
  accept(event.request, text + hold_text(event));
  if (event.request != 0 && settings_.policy_sizes) desired_.hold_size({event.hold_for}, out_);
}

std::string Requests::hold_text(const Resize& event) const {
  if (event.request == 0 || !settings_.policy_sizes) return "";
  if (event.hold_for.count() == 0) return "; held against the policy until `resize auto`";
  const double seconds = std::chrono::duration<double>(event.hold_for).count();
  return "; held against the policy for " + protocol::duration_text(seconds) + ", or until `resize auto`";
}

void Requests::give_back(const Resize& event) {
  out_.journal(record::ResizeRequested{event.request, event.target, event.reason});
  if (!settings_.policy_sizes) {
    return refuse(event.request, "no policy decides on the size of this run (policy.name); say how many workers");
  }
  const bool was_held = desired_.held.has_value();
  desired_.release_size("a user gave it back", out_);
  accept(event.request, was_held ? "the policy decides on the size again" : "the policy decides on the size already");
}

std::string Requests::resize_text(std::uint32_t target) const {
  const auto size = static_cast<std::uint32_t>(workers_.newest_members().size());
  const std::string sizes = "from " + std::to_string(size) + " to " + std::to_string(target);
  if (training_.generation == 0 && startup_.is_plain()) {
    return "the size becomes " + std::to_string(target) +
           " once the program has joined the run; a program that never does keeps the size it has";
  }
  if (training_.generation == 0) return "the run starts with " + std::to_string(target);
  std::string text = target > size ? "growing " + sizes : "shrinking " + sizes;
  if (target == size) text = "staying at " + std::to_string(target);
  if (target > planner_.size_limit()) {
    return text + "; the limit of the global batch allows " + std::to_string(planner_.size_limit()) + " for now";
  }
  const std::uint32_t slots = roster_.usable_slots();
  if (settings_.leased && target > desired_.lease.slots) {
    text += "; the cluster leases " + counted(desired_.lease.slots, "slot") + " now";
  } else if (target > size && target > slots) {
    text += "; the hosts have " + counted(slots, "slot") + " now, the rest follows when hosts appear";
  }
  return text;
}

void Requests::on(const ReplaceWorker& event) {
  out_.journal(record::ReplaceRequested{.request = event.request, .rank = event.rank, .host = {}});
  const auto& members = workers_.newest_members();
  if (event.rank >= members.size()) {
    refuse(event.request, "there is no rank " + std::to_string(event.rank) + ": the run has ranks 0 to " +
                              std::to_string(members.size() - 1));
    return;
  }
  const WorkerId id = members[event.rank];
  const Worker* worker = roster_.worker(id);
  if (worker == nullptr || worker->finished()) {
    refuse(event.request, "rank " + std::to_string(event.rank) + " has finished");
    return;
  }
  const std::string text = "replacing " + workers_.name_of(*worker);
  desired_.replacements.try_emplace(id,
                                    event.other_host ? protocol::ChangeKind::kMigrate : protocol::ChangeKind::kReplace);
  desired_.renew(roster_, change_, out_);
  accept(event.request, text);
}

void Requests::on(const UpdatePlan& event) {
  const std::string reason = event.reason.empty() ? "requested by the user" : event.reason;
  out_.journal(record::PlanUpdateRequested{event.request, reason});
  if (event.per_worker && *event.per_worker == 0) return refuse(event.request, "a batch of 0 samples trains nothing");
  const auto is_odd = [](double value) { return !(value > 0) || !std::isfinite(value); };
  const bool odd = event.speeds && std::any_of(event.speeds->begin(), event.speeds->end(),
                                               [&](const auto& entry) { return is_odd(entry.second); });
  if (odd) return refuse(event.request, "speeds must be above 0");
  if (event.learning_rate_factor && is_odd(*event.learning_rate_factor)) {
    return refuse(event.request, "a learning-rate factor must be above 0");
  }
  if (event.noise_scale && is_odd(*event.noise_scale)) return refuse(event.request, "a noise scale must be above 0");
  if (event.parents) {
    if (auto tree = protocol::check_tree(*event.parents, training_.members.size()); !tree) {
      return refuse(event.request, tree.error().message);
    }
  }
  desired_.apply(event, settings_);
  record::PlanUpdated updated;
  write_update(desired_.update, updated);
  out_.journal(std::move(updated));
  const std::string what = change_of(event);
  if (is_for_later(event)) return accept(event.request, what);
  desired_.update_reason = what + ": " + reason;
  desired_.renew(roster_, change_, out_);
  accept(event.request, what);
}

void Requests::refuse_program(const std::string& why) {
  out_.journal(record::ProgramRefused{why});
  out_.tell(Tell::Level::kWarning, "the program's request was refused: " + why);
}

// A program may request the same in every step: a value that is already in effect or already desired changes nothing.
void Requests::on_message(Worker& worker, const protocol::WorkerRequest& message) {
  const bool trains = training_.generation != 0 && !end_.begun();
  if (!training_.is_member(worker.id) || !trains) return;
  const auto shape = protocol::topology_choice(message.topology);
  const auto synchronization = protocol::synchronization_named(message.synchronization);
  const std::string reason = "requested by the program";
  UpdatePlan update{.reason = reason};
  if (message.per_worker != 0 && message.per_worker != settings_.batch.per_worker) {
    update.per_worker = message.per_worker;
  }
  const double factor = message.learning_rate_factor;
  if (factor != 0 && factor != settings_.learning_rate.factor) update.learning_rate_factor = factor;
  const bool new_shape = shape && (shape->parents != settings_.parents ||
                                   (shape->parents.empty() && shape->topology != settings_.topology));
  if (new_shape && shape->parents.empty()) update.topology = shape->topology;
  if (new_shape && !shape->parents.empty()) update.parents = shape->parents;
  if (synchronization && synchronization != settings_.synchronization) update.synchronization = synchronization;
  const bool updates_plan = update.per_worker || update.learning_rate_factor || new_shape || update.synchronization;
  const bool resizes = message.workers != 0 && message.workers != desired_.target;
  const bool is_odd = !std::isfinite(factor) || factor < 0;
  const bool fits =
      message.workers == 0 || (message.workers >= settings_.min_workers && message.workers <= settings_.max_workers);
  if (!updates_plan && !resizes) return;
  out_.journal(record::ProgramRequested{worker.id, message.workers});
  if (is_odd) return refuse_program("a learning-rate factor must be above 0");
  if (!fits) return refuse_program(outside_limits(message.workers));
  if (resizes) on(Resize{.target = message.workers, .reason = reason});
  if (updates_plan) on(update);
}

// A noise scale alone that leaves the present learning rate as it is: only later plans use it.
bool Requests::is_for_later(const UpdatePlan& event) const {
  constexpr double kSameFactor = 0.01;
  if (event.speeds || event.per_worker || event.learning_rate_factor || event.topology || event.parents ||
      event.synchronization || !event.noise_scale) {
    return false;
  }
  std::uint64_t batch = 0;
  for (WorkerId id : training_.members) {
    const Worker* worker = roster_.worker(id);
    batch += worker == nullptr ? 0 : worker->share;
  }
  return std::abs(core::learning_rate_factor(settings_, batch) - training_.learning_rate_factor) <=
         kSameFactor * training_.learning_rate_factor;
}

void Requests::on(const ReplaceHost& event) {
  out_.journal(record::ReplaceRequested{.request = event.request, .rank = {}, .host = event.host});
  const Agent* agent = roster_.agent_on(event.host);
  if (agent == nullptr) {
    refuse(event.request, "there is no host " + event.host + " in this run");
    return;
  }
  std::vector<WorkerId> moved;
  for (WorkerId id : workers_.newest_members()) {
    if (agent->workers.contains(id)) moved.push_back(id);
  }
  if (moved.empty()) {
    refuse(event.request, "no worker of the run is on host " + event.host);
    return;
  }
  for (WorkerId id : moved) desired_.replacements[id] = protocol::ChangeKind::kMigrate;
  desired_.renew(roster_, change_, out_);
  accept(event.request, "moving " + counted(moved.size(), "worker") + " of host " + event.host);
}

void Requests::on(const DrainHost& event) {
  out_.journal(record::DrainRequested{event.request, event.host});
  Agent* agent = roster_.agent_of_host(event.host);
  if (agent == nullptr) {
    refuse(event.request, "there is no host " + event.host + " in this run");
    return;
  }
  if (agent->drain) {
    accept(event.request,
           "host " + event.host + (agent->drained() ? " is drained already" : " is already being drained"));
    return;
  }
  const std::uint32_t others = roster_.usable_slots() - (agent->usable() ? agent->usable_slots() : 0);
  if (others < settings_.min_workers) {
    refuse(event.request, "without host " + event.host + " the others have " + counted(others, "slot") +
                              ", and at least " + counted(settings_.min_workers, "worker") + " must train");
    return;
  }
  agent->drain = true;
  if (agent->link == Link::kLaunching) hosts_.stop_agent(*agent);
  desired_.renew(roster_, change_, out_);
  accept(event.request, "draining host " + event.host);
}

// Empty: it can be undrained.
std::string Requests::why_not_undrained(const std::string& host, const Agent* agent) const {
  if (agent == nullptr) return "there is no host " + host + " in this run";
  if (!agent->drain) return "host " + host + " is not drained";
  if (agent->noticed) {
    return "host " + host +
           " leaves by its own notice, not by a drain: it is used again when it has been off the list of hosts";
  }
  if (!agent->offered) return "host " + host + " is not on the list of hosts: it is used when it is there again";
  return "";
}

void Requests::on(const UndrainHost& event) {
  out_.journal(record::UndrainRequested{event.request, event.host});
  Agent* agent = roster_.agent_of_host(event.host);
  if (const std::string why = why_not_undrained(event.host, agent); !why.empty()) return refuse(event.request, why);
  hosts_.undrain(*agent);
  accept(event.request, "workers may be started on host " + event.host + " again");
}

}  // namespace elastictrain::core
