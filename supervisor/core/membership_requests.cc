// The part of the state machine that answers users. Each request changes the wish and is answered at once: what
// becomes of the wish is told and journalled as it happens.
#include <algorithm>
#include <cmath>

#include "supervisor/core/membership_impl.h"

namespace elastictrain::core {

void Membership::Impl::new_wish() {
  hold_ = false;
  unmet_told_.clear();
  roster_.clear_blame();
  change_.attempts = 0;
  dirty_ = true;
}

void Membership::Impl::accept(std::uint64_t request, const std::string& text) {
  if (request == 0) return;
  journal("accepted", Fields().number("request", request).text("text", text));
  emit(Reply{request, true, text});
}

void Membership::Impl::refuse(std::uint64_t request, const std::string& text) {
  if (request == 0) return;
  if (!ended_) journal("refused", Fields().number("request", request).text("text", text));
  emit(Reply{request, false, text});
}

std::string Membership::Impl::refusal(RunPhase phase) const {
  if (phase == RunPhase::kStarting) return "the run is still starting: try again when it trains";
  if (phase == RunPhase::kEnded) return "the run has ended";
  return "the run is ending: " + end_.reason;
}

void Membership::Impl::on(const Resize& event) {
  journal("resize_requested",
          Fields().number("request", event.request).number("target", event.target).text("reason", event.reason));
  if (event.target < settings_.min_workers || event.target > settings_.max_workers) {
    refuse(event.request, std::to_string(event.target) + " workers are outside the limits of this run, " +
                              std::to_string(settings_.min_workers) + " to " + std::to_string(settings_.max_workers) +
                              " (workers.min and workers.max)");
    return;
  }
  const std::string text = resize_text(event.target);
  target_ = event.target;
  target_reason_ = event.reason.empty() ? "asked by the user" : event.reason;
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
  journal("replace_requested", Fields().number("request", event.request).number("rank", event.rank));
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
  const std::string reason = event.reason.empty() ? "asked by the user" : event.reason;
  journal("reshare_requested", Fields().number("request", event.request).text("reason", reason));
  if (event.per_worker && *event.per_worker == 0) return refuse(event.request, "a batch of 0 samples trains nothing");
  const bool odd = event.speeds && std::any_of(event.speeds->begin(), event.speeds->end(), [](const auto& entry) {
    return !(entry.second > 0) || !std::isfinite(entry.second);
  });
  if (odd) return refuse(event.request, "speeds must be above 0");
  if (settings_.base_per_worker == 0) settings_.base_per_worker = settings_.batch.per_worker;
  if (event.per_worker) settings_.batch.per_worker = *event.per_worker;
  if (event.speeds) speeds_ = *event.speeds;
  reshare_ = "share the samples of a step out anew: " + reason;
  new_wish();
  accept(event.request, "sharing the samples of a step out anew");
}

void Membership::Impl::on(const ReplaceHost& event) {
  journal("replace_requested", Fields().number("request", event.request).text("host", event.host));
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
  journal("drain_requested", Fields().number("request", event.request).text("host", event.host));
  Agent* agent = roster_.agent_on(event.host);
  if (agent == nullptr) {
    refuse(event.request, "there is no host " + event.host + " in this run");
    return;
  }
  if (agent->drain) {
    accept(event.request, "host " + event.host + " is being drained already");
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
