// The part of the state machine that takes a run over from a supervisor that is gone. Its agents and workers were not
// notified: they train on, come back one by one, and each repeats its latest messages.
#include <algorithm>
#include <utility>

#include "supervisor/core/membership_impl.h"
#include "supervisor/core/words.h"

namespace elastictrain::core {

void Membership::Impl::on(const Resumed& event) {
  if (hosts_known_ || generation_ != 0) return;
  finished_ = {event.finished.begin(), event.finished.end()};
  restore_roster(event);
  restore_generation(event);
  target_ = event.target;
  target_reason_ = event.target_reason;
  apply(event.reshared);
  for (const auto& [worker, audit] : event.audits) report_audit(worker, ledger_.record(worker, audit));
  invariants_.resume(generation_, issued_, WorkerId{static_cast<std::uint32_t>(event.last_worker)});
  journal(record::TakenOver{generation_, roster_.agents().size(), roster_.workers().size(), unsettled_});
  tell(Tell::Level::kInfo, "taking the run over: " + counted(roster_.workers().size(), "worker") + " on " +
                               counted(roster_.agents().size(), "host") + ", generation " +
                               std::to_string(generation_));
  if (!finished_.empty()) member_finished();
  dirty_ = true;
}

void Membership::Impl::restore_roster(const Resumed& event) {
  roster_.ids_used(event.last_agent, static_cast<std::uint32_t>(event.last_worker));
  std::uint32_t order = 0;
  for (const Resumed::AgentPlace& place : event.agents) {
    Agent& agent = roster_.restore_agent(place.agent, place.host, place.slots);
    agent.order = order++;
    agent.drain = place.drain;
    agent.link = Link::kUp;
    agent.cut_off = true;
    agent.last_heard = now_;
    agent.lost_reason = "it did not come back within " + std::to_string(settings_.resume_timeout.count()) + " ms";
    agent.reconnect_timer = arm({TimerKind::kReconnect, {}, agent.id}, now_ + settings_.resume_timeout);
  }
  for (const Resumed::WorkerPlace& place : event.workers) {
    if (roster_.agent(place.agent) == nullptr) continue;
    roster_.restore_worker(place.worker, {place.agent, place.slot}).finished = finished_.contains(place.worker);
  }
  spawned_ = !roster_.workers().empty();
  hosts_known_ = spawned_;
  start_expired_ = spawned_;
  spawned_at_ = now_;
  first_size_ = static_cast<std::uint32_t>(roster_.workers().size());
}

void Membership::Impl::restore_generation(const Resumed& event) {
  issued_ = event.issued;
  lineage_ = event.lineage;
  for (const protocol::Fence& fence : lineage_) report_audit({}, ledger_.fence(fence));
  learning_rate_factor_ = event.learning_rate_factor;
  synchronization_ = event.synchronization;
  unsettled_ = event.unsettled;
  std::vector<WorkerId> seated;
  const auto seat = [&](WorkerId id, std::uint32_t share) {
    Worker* worker = roster_.worker(id);
    if (worker == nullptr) {
      // Its exit was recorded, but not the consequence; if it had finished there is none.
      unsettled_ = unsettled_ || !finished_.contains(id);
      return;
    }
    if (std::exchange(worker->seated, true)) return;
    worker->share = share;
    seated.push_back(id);
  };
  for (std::size_t rank = 0; rank < event.members.size(); ++rank) {
    seat(event.members[rank], rank < event.shares.size() ? event.shares[rank] : 0);
  }
  for (WorkerId id : event.unsettled_members) seat(id, 0);
  generation_ = seated.empty() ? 0 : event.generation;
  restarting_ = seated.empty() && !lineage_.empty();
  elastic_ = generation_ != 0 || !seated.empty() || restarting_;
  spawned_ = spawned_ || restarting_;
  size_reason_ = "the run was taken over";
  set_members(std::move(seated));
  resuming_ = spawned_ && !roster_.agents().empty();
  watch_for_hangs(generation_, members_);
}

// Nothing is decided before every agent is back or given up.
void Membership::Impl::finish_resume() {
  const bool waits = std::any_of(roster_.agents().begin(), roster_.agents().end(),
                                 [](const auto& entry) { return entry.second.cut_off; });
  if (waits) return;
  resuming_ = false;
  dirty_ = true;
  for (auto& [id, worker] : roster_.workers()) {
    if (!worker.ready && !worker.seated && !worker.dying && elastic_ && worker.timer == 0) expect_ready(worker);
  }
  const bool over = !finished_.empty() && nobody_else_trains();
  const bool broken = std::exchange(unsettled_, false) && !members_.empty() && !recovering() && !over;
  journal(record::AllBack{generation_, roster_.workers().size()});
  if (broken) begin_recovery("the supervisor was replaced in the middle of a change");
}

}  // namespace elastictrain::core
