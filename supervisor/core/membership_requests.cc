// The part of the state machine that answers users. Each request changes the desired state and is answered at once; the
// progress towards it is reported and recorded as it happens.
#include <algorithm>
#include <cmath>

#include "supervisor/core/membership_impl.h"
#include "supervisor/protocol/topology_choice.h"

namespace elastictrain::core {

namespace {

std::string change_of(const Reshare& event) {
  std::vector<std::string> parts;
  if (event.fathers) parts.push_back("sum along the tree " + protocol::text_of({}, *event.fathers));
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

void Membership::Impl::new_wish() {
  hold_ = false;
  unmet_told_.clear();
  roster_.clear_blame();
  change_.attempts = 0;
  dirty_ = true;
}

void Membership::Impl::accept(std::uint64_t request, const std::string& text) {
  if (request == 0) return;
  journal(record::Accepted{request, text});
  emit(Reply{request, true, text});
}

void Membership::Impl::refuse(std::uint64_t request, const std::string& text) {
  if (request == 0) return;
  if (!ended_) journal(record::Refused{request, text});
  emit(Reply{request, false, text});
}

std::string Membership::Impl::refusal(RunPhase phase) const {
  if (phase == RunPhase::kStarting) return "the run is still starting: try again when it trains";
  if (phase == RunPhase::kEnded) return "the run has ended";
  return "the run is ending: " + end_.reason;
}

void Membership::Impl::on(const Resize& event) {
  journal(record::ResizeRequested{event.request, event.target, event.reason});
  if (event.target < settings_.min_workers || event.target > settings_.max_workers) {
    refuse(event.request, std::to_string(event.target) + " workers are outside the limits of this run, " +
                              std::to_string(settings_.min_workers) + " to " + std::to_string(settings_.max_workers) +
                              " (workers.min and workers.max)");
    return;
  }
  const std::string text = resize_text(event.target);
  target_ = event.target;
  target_reason_ = event.reason.empty() ? "requested by the user" : event.reason;
  new_wish();
  accept(event.request, text);
}

std::string Membership::Impl::resize_text(std::uint32_t target) const {
  const auto size = static_cast<std::uint32_t>(newest_members().size());
  const std::string sizes = "from " + std::to_string(size) + " to " + std::to_string(target);
  if (generation_ == 0 && spawned_ && !elastic_) {
    return "the size becomes " + std::to_string(target) +
           " once the program has joined the run; a program that never does keeps the size it has";
  }
  if (generation_ == 0) return "the run starts with " + std::to_string(target);
  std::string text = target > size ? "growing " + sizes : "shrinking " + sizes;
  if (target == size) text = "staying at " + std::to_string(target);
  if (target > size_limit()) {
    return text + "; the limit of the global batch allows " + std::to_string(size_limit()) + " for now";
  }
  const std::uint32_t slots = roster_.usable_slots();
  if (target > size && target > slots) {
    text += "; there are " + std::to_string(slots) + " slots now, the rest follows when hosts appear";
  }
  return text;
}

void Membership::Impl::on(const ReplaceWorker& event) {
  journal(record::ReplaceRequested{.request = event.request, .rank = event.rank, .host = {}});
  const auto& members = newest_members();
  if (event.rank >= members.size()) {
    refuse(event.request, "there is no rank " + std::to_string(event.rank) + ": the run has ranks 0 to " +
                              std::to_string(members.size() - 1));
    return;
  }
  const WorkerId id = members[event.rank];
  const Worker* worker = roster_.worker(id);
  if (worker == nullptr || worker->finished) {
    refuse(event.request, "rank " + std::to_string(event.rank) + " has finished");
    return;
  }
  const std::string text = "replacing " + name_of(*worker);
  to_replace_.try_emplace(id, event.other_host ? protocol::ChangeKind::kMigrate : protocol::ChangeKind::kReplace);
  new_wish();
  accept(event.request, text);
}

void Membership::Impl::on(const Reshare& event) {
  const std::string reason = event.reason.empty() ? "requested by the user" : event.reason;
  journal(record::PlanUpdateRequested{event.request, reason});
  if (event.per_worker && *event.per_worker == 0) return refuse(event.request, "a batch of 0 samples trains nothing");
  const auto is_odd = [](double value) { return !(value > 0) || !std::isfinite(value); };
  const bool odd = event.speeds && std::any_of(event.speeds->begin(), event.speeds->end(),
                                               [&](const auto& entry) { return is_odd(entry.second); });
  if (odd) return refuse(event.request, "speeds must be above 0");
  if (event.learning_rate_factor && is_odd(*event.learning_rate_factor)) {
    return refuse(event.request, "a learning-rate factor must be above 0");
  }
  if (event.noise_scale && is_odd(*event.noise_scale)) return refuse(event.request, "a noise scale must be above 0");
  if (event.fathers) {
    if (auto tree = protocol::check_tree(*event.fathers, members_.size()); !tree) {
      return refuse(event.request, tree.error().message);
    }
  }
  apply(event);
  record::PlanUpdated updated;
  record_plan_update(updated);
  journal(std::move(updated));
  const std::string what = change_of(event);
  if (is_for_later(event)) return accept(event.request, what);
  reshare_ = what + ": " + reason;
  new_wish();
  accept(event.request, what);
}

// In effect from the next plan on, and kept across supervisors. Speeds are not: their workers may be gone by then.
void Membership::Impl::apply(const Reshare& event) {
  if (settings_.base_per_worker == 0) settings_.base_per_worker = settings_.batch.per_worker;
  if (event.speeds) speeds_ = *event.speeds;
  if (event.per_worker) settings_.batch.per_worker = *(reshared_.per_worker = event.per_worker);
  if (event.learning_rate_factor)
    settings_.learning_rate.factor = reshared_.learning_rate_factor = event.learning_rate_factor;
  if (event.noise_scale) settings_.learning_rate.noise_scale = *(reshared_.noise_scale = event.noise_scale);
  if (event.topology) {
    settings_.topology = *(reshared_.topology = event.topology);
    settings_.fathers.clear();
    reshared_.fathers.reset();
  }
  if (event.fathers) settings_.fathers = *(reshared_.fathers = event.fathers);
  if (event.synchronization) settings_.synchronization = *(reshared_.synchronization = event.synchronization);
}

void Membership::Impl::refuse_program(const std::string& why) {
  journal(record::ProgramRefused{why});
  tell(Tell::Level::kWarning, "the program's request was refused: " + why);
}

// A program may request the same in every step: a value that is already in effect or already desired changes nothing.
void Membership::Impl::said(Worker& worker, const protocol::WorkerRequest& message) {
  const bool trains = phase() == RunPhase::kRunning || phase() == RunPhase::kChanging;
  if (!is_member(worker.id) || !trains) return;
  const auto shape = protocol::topology_choice(message.topology);
  const auto synchronization = protocol::synchronization_named(message.synchronization);
  const std::string reason = "requested by the program";
  Reshare reshare{.reason = reason};
  if (message.per_worker != 0 && message.per_worker != settings_.batch.per_worker) {
    reshare.per_worker = message.per_worker;
  }
  const double factor = message.learning_rate_factor;
  if (factor != 0 && factor != settings_.learning_rate.factor) reshare.learning_rate_factor = factor;
  const bool new_shape = shape && (shape->fathers != settings_.fathers ||
                                   (shape->fathers.empty() && shape->topology != settings_.topology));
  if (new_shape && shape->fathers.empty()) reshare.topology = shape->topology;
  if (new_shape && !shape->fathers.empty()) reshare.fathers = shape->fathers;
  if (synchronization && synchronization != settings_.synchronization) reshare.synchronization = synchronization;
  const bool reshares = reshare.per_worker || reshare.learning_rate_factor || new_shape || reshare.synchronization;
  const bool resizes = message.workers != 0 && message.workers != target_;
  const bool is_odd = !std::isfinite(factor) || factor < 0;
  const bool fits =
      message.workers == 0 || (message.workers >= settings_.min_workers && message.workers <= settings_.max_workers);
  if (!reshares && !resizes) return;
  journal(record::ProgramRequested{worker.id, message.workers});
  if (is_odd) return refuse_program("a learning-rate factor must be above 0");
  if (!fits) {
    return refuse_program(std::to_string(message.workers) + " workers are outside the limits of this run, " +
                          std::to_string(settings_.min_workers) + " to " + std::to_string(settings_.max_workers) +
                          " (workers.min and workers.max)");
  }
  if (resizes) on(Resize{.target = message.workers, .reason = reason});
  if (reshares) on(reshare);
}

// A noise scale alone that leaves the present learning rate as it is: only later plans use it.
bool Membership::Impl::is_for_later(const Reshare& event) const {
  constexpr double kSameFactor = 0.01;
  if (event.speeds || event.per_worker || event.learning_rate_factor || event.topology || event.fathers ||
      event.synchronization || !event.noise_scale) {
    return false;
  }
  std::uint64_t batch = 0;
  for (WorkerId id : members_) {
    const Worker* worker = roster_.worker(id);
    batch += worker == nullptr ? 0 : worker->share;
  }
  return std::abs(learning_rate_factor(settings_, batch) - learning_rate_factor_) <=
         kSameFactor * learning_rate_factor_;
}

void Membership::Impl::on(const ReplaceHost& event) {
  journal(record::ReplaceRequested{.request = event.request, .rank = {}, .host = event.host});
  const Agent* agent = roster_.agent_on(event.host);
  if (agent == nullptr) {
    refuse(event.request, "there is no host " + event.host + " in this run");
    return;
  }
  std::vector<WorkerId> moved;
  for (WorkerId id : newest_members()) {
    if (agent->workers.contains(id)) moved.push_back(id);
  }
  if (moved.empty()) {
    refuse(event.request, "no worker of the run is on host " + event.host);
    return;
  }
  for (WorkerId id : moved) to_replace_[id] = protocol::ChangeKind::kMigrate;
  new_wish();
  accept(event.request, "moving " + std::to_string(moved.size()) + (moved.size() == 1 ? " worker" : " workers") +
                            " of host " + event.host);
}

void Membership::Impl::on(const DrainHost& event) {
  journal(record::DrainRequested{event.request, event.host});
  Agent* agent = roster_.agent_on(event.host);
  if (agent == nullptr) {
    refuse(event.request, "there is no host " + event.host + " in this run");
    return;
  }
  if (agent->drain) {
    accept(event.request, "host " + event.host + " is already being drained");
    return;
  }
  const std::uint32_t others = roster_.usable_slots() - (agent->usable() ? agent->slots : 0);
  if (others < settings_.min_workers) {
    refuse(event.request, "without host " + event.host + " there are " + std::to_string(others) +
                              " slots, and at least " + std::to_string(settings_.min_workers) + " workers must train");
    return;
  }
  agent->drain = true;
  if (agent->link == Link::kLaunching) stop_agent(*agent);
  new_wish();
  accept(event.request, "draining host " + event.host);
}

}  // namespace elastictrain::core
