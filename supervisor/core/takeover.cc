#include "supervisor/core/takeover.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "supervisor/core/ending.h"
#include "supervisor/core/pure/text.h"
#include "supervisor/core/recovering.h"
#include "supervisor/core/workers.h"
#include "supervisor/protocol/check.h"
#include "supervisor/protocol/duration_text.h"

namespace elastictrain::core {

// The run had started again, and the record of it was lost with the machine: where it began says the account of its
// workers.
static void fence_lost_start(Run& run, const Resumed& event) {
  const Generation known = run.training.lineage.empty() ? 0 : run.training.lineage.back().generation;
  std::map<Generation, Step> began;
  for (const auto& [worker, audit] : event.audits) {
    for (const protocol::AuditStep& step : audit.steps) {
      if (step.generation <= known || audit.from_checkpoint) continue;
      const auto [first, is_new] = began.try_emplace(step.generation, step.step);
      if (!is_new) first->second = std::min(first->second, step.step);
    }
  }
  for (const auto& [generation, step] : began) fence_accounts(run, {generation, step});
}

static void restore_roster(Run& run, const Resumed& event) {
  run.roster.ids_used(event.last_agent, static_cast<std::uint32_t>(event.last_worker));
  std::uint32_t order = 0;
  for (const Resumed::AgentPlace& place : event.agents) {
    Agent& agent = run.roster.restore_agent(place.agent, place.host, place.slots);
    agent.order = order++;
    agent.only = place.only;
    agent.drain = place.drain && !run.settings.leased;
    agent.noticed = place.noticed;
    agent.offered = !place.drain || !run.settings.leased;  // the next lease may contain it again
    // There is no agent to wait for.
    if (place.drained) {
      agent.link = Link::kDown;
      continue;
    }
    agent.link = Link::kUp;
    agent.cut_off = true;
    agent.last_seen = run.out.now();
    agent.lost_reason = "it did not come back within " + protocol::duration_text(run.settings.resume_timeout);
    agent.reconnect_timer =
        run.out.arm({TimerKind::kReconnect, {}, agent.id}, run.out.now() + run.settings.resume_timeout);
  }
  for (const Resumed::WorkerPlace& place : event.workers) {
    if (run.roster.agent(place.agent) == nullptr) continue;
    Worker& worker = run.roster.restore_worker(place.worker, {place.agent, place.slot});
    if (run.end.finished.contains(place.worker)) worker.seat = Seat::kFinished;
    worker.is_first =
        event.first ? place.worker == *event.first : !event.members.empty() && place.worker == event.members.front();
    worker.may_lead = worker.is_first && run.settings.keeps_first;
  }
  run.startup.plain_restarts = event.plain_restarts;
  run.startup.spawned = !run.roster.workers().empty();
  run.startup.hosts_known = run.startup.spawned;
  run.startup.expired = run.startup.spawned;
  run.startup.spawned_at = run.out.now();
  run.startup.first_size = static_cast<std::uint32_t>(run.roster.workers().size());
  if (run.startup.spawned && run.settings.last_call != Millis{0}) {
    run.out.arm({TimerKind::kFixed, {}, {}}, run.out.now() + run.settings.ready_timeout);
  }
}

static void restore_generation(Run& run, const Resumed& event) {
  ET_CHECK(run.training.issued == 0, "a run is taken over before it issues a number");
  run.training.issued = event.issued;
  run.training.lineage = event.lineage;
  for (const protocol::Fence& fence : run.training.lineage) fence_accounts(run, fence);
  run.training.learning_rate_factor = event.learning_rate_factor;
  run.training.synchronization = event.synchronization;
  run.takeover.unsettled = event.unsettled;
  std::vector<WorkerId> seated;
  std::set<WorkerId> once;
  const auto seat = [&](WorkerId id, std::uint32_t share) {
    Worker* worker = run.roster.worker(id);
    if (worker == nullptr) {
      // Its exit was recorded, but not the consequence; if it had finished there is none.
      run.takeover.unsettled = run.takeover.unsettled || !run.end.finished.contains(id);
      return;
    }
    if (!once.insert(id).second) return;
    worker->take_seat();
    worker->share = share;
    seated.push_back(id);
  };
  for (std::size_t rank = 0; rank < event.members.size(); ++rank) {
    seat(event.members[rank], rank < event.shares.size() ? event.shares[rank] : 0);
  }
  for (WorkerId id : event.unsettled_members) seat(id, 0);
  run.training.generation = seated.empty() ? 0 : event.generation;
  run.training.restarting = seated.empty() && (event.restarting || !run.training.lineage.empty());
  run.startup.elastic = run.training.generation != 0 || !seated.empty() || run.training.restarting;
  run.startup.spawned = run.startup.spawned || run.training.restarting;
  run.training.size_reason = "the run was taken over";
  run.training.set_members(std::move(seated));
  // A run of a cluster has its hosts, even if the cluster does not repeat its lease.
  const bool begins = run.settings.leased && !run.startup.spawned && !run.roster.agents().empty();
  if (begins && run.desired.lease.slots >= run.settings.min_workers) {
    run.startup.hosts_known = true;
    run.startup.timer = run.out.arm({TimerKind::kStart, {}, {}}, run.out.now() + run.settings.start_timeout);
  }
  run.takeover.waiting = (run.startup.spawned || begins) && !run.roster.agents().empty();
  run.hangs.seat(run.training.generation, run.roster.unfinished(run.training.members));
}

void on(Run& run, const Resumed& event) {
  if (run.startup.hosts_known || run.training.generation != 0) return;
  run.end.finished = {event.finished.begin(), event.finished.end()};
  run.desired.lease = event.lease;
  restore_roster(run, event);
  restore_generation(run, event);
  run.desired.target = event.target;
  run.desired.target_reason = event.target_reason;
  apply_update(run, event.plan_update);
  run.desired.refused = event.refused;
  if (event.hold) hold_size(run, *event.hold);
  if (event.restarting) fence_lost_start(run, event);
  for (const auto& [worker, audit] : event.audits) record_account(run, worker, audit);
  run.invariants.resume(run.training.generation, run.training.issued,
                        WorkerId{static_cast<std::uint32_t>(event.last_worker)});
  const auto agents = static_cast<std::size_t>(
      std::count_if(event.agents.begin(), event.agents.end(), [](const auto& place) { return !place.drained; }));
  run.out.journal(
      record::TakenOver{run.training.generation, agents, run.roster.workers().size(), run.takeover.unsettled});
  const bool anybody = agents > 0 || !run.roster.workers().empty();
  if (anybody)
    run.out.tell(Tell::Level::kInfo, "taking the run over: " + counted(run.roster.workers().size(), "worker") + " on " +
                                         counted(agents, "host") + ", generation " +
                                         std::to_string(run.training.generation));
  if (!run.end.finished.empty()) member_finished(run);
  run.out.look_again();
}

void advance_takeover(Run& run) {
  const bool waits = std::any_of(run.roster.agents().begin(), run.roster.agents().end(),
                                 [](const auto& entry) { return entry.second.cut_off; });
  if (waits) return;
  run.takeover.waiting = false;
  run.out.look_again();
  for (auto& [id, worker] : run.roster.workers()) {
    if (!worker.ready() && !worker.seated() && !worker.dying() && run.startup.elastic && worker.timer == 0)
      expect_ready(run, worker);
  }
  const bool over = !run.end.finished.empty() && run.roster.nobody_trains();
  const bool broken = std::exchange(run.takeover.unsettled, false) && !run.training.members.empty() &&
                      !run.recovery.active_or_wanted() && !over;
  run.out.journal(record::AllBack{run.training.generation, run.roster.workers().size()});
  if (broken) want_recovery(run, "the supervisor was replaced in the middle of a change");
}

}  // namespace elastictrain::core
