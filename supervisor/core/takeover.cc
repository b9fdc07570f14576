#include "supervisor/core/takeover.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "supervisor/core/audit.h"
#include "supervisor/core/desired_state.h"
#include "supervisor/core/ending.h"
#include "supervisor/core/halt.h"
#include "supervisor/core/hang_detector.h"
#include "supervisor/core/invariants.h"
#include "supervisor/core/outbox.h"
#include "supervisor/core/recovery.h"
#include "supervisor/core/run_end.h"
#include "supervisor/core/settings.h"
#include "supervisor/core/startup.h"
#include "supervisor/core/text.h"
#include "supervisor/core/training.h"
#include "supervisor/core/worker_control.h"
#include "supervisor/protocol/check.h"
#include "supervisor/protocol/duration_text.h"

namespace elastictrain::core {

Takeover::Takeover(RunSettings& settings, Roster& roster, Outbox& out, Training& training, Recovery& recovery,
                   DesiredState& desired, Startup& startup, RunEnd& end, TakeoverState& resume, HangDetector& hangs,
                   Invariants& invariants, Audit& audit, WorkerControl& workers, Halt& halt, Ending& ending)
    : settings_(settings),
      roster_(roster),
      out_(out),
      training_(training),
      recovery_(recovery),
      desired_(desired),
      startup_(startup),
      end_(end),
      resume_(resume),
      hangs_(hangs),
      invariants_(invariants),
      audit_(audit),
      workers_(workers),
      halt_(halt),
      ending_(ending) {}

void Takeover::on(const Resumed& event) {
  if (startup_.hosts_known || training_.generation != 0) return;
  end_.finished = {event.finished.begin(), event.finished.end()};
  desired_.lease = event.lease;
  restore_roster(event);
  restore_generation(event);
  desired_.target = event.target;
  desired_.target_reason = event.target_reason;
  desired_.apply(event.plan_update, settings_);
  desired_.refused = event.refused;
  if (event.hold) desired_.hold_size(*event.hold, out_);
  if (event.restarting) fence_lost_start(event);
  for (const auto& [worker, audit] : event.audits) audit_.record(worker, audit);
  invariants_.resume(training_.generation, training_.issued, WorkerId{static_cast<std::uint32_t>(event.last_worker)});
  const auto agents = static_cast<std::size_t>(
      std::count_if(event.agents.begin(), event.agents.end(), [](const auto& place) { return !place.drained; }));
  out_.journal(record::TakenOver{training_.generation, agents, roster_.workers().size(), resume_.unsettled});
  const bool anybody = agents > 0 || !roster_.workers().empty();
  if (anybody)
    out_.tell(Tell::Level::kInfo, "taking the run over: " + counted(roster_.workers().size(), "worker") + " on " +
                                      counted(agents, "host") + ", generation " + std::to_string(training_.generation));
  if (!end_.finished.empty()) ending_.member_finished();
  out_.look_again();
}

// The run had started again, and the record of it was lost with the machine: where it began says the account of its
// workers.
void Takeover::fence_lost_start(const Resumed& event) {
  const Generation known = training_.lineage.empty() ? 0 : training_.lineage.back().generation;
  std::map<Generation, Step> began;
  for (const auto& [worker, audit] : event.audits) {
    for (const protocol::AuditStep& step : audit.steps) {
      if (step.generation <= known || audit.from_checkpoint) continue;
      const auto [first, is_new] = began.try_emplace(step.generation, step.step);
      if (!is_new) first->second = std::min(first->second, step.step);
    }
  }
  for (const auto& [generation, step] : began) audit_.fence({generation, step});
}

void Takeover::restore_roster(const Resumed& event) {
  roster_.ids_used(event.last_agent, static_cast<std::uint32_t>(event.last_worker));
  std::uint32_t order = 0;
  for (const Resumed::AgentPlace& place : event.agents) {
    Agent& agent = roster_.restore_agent(place.agent, place.host, place.slots);
    agent.order = order++;
    agent.only = place.only;
    agent.drain = place.drain && !settings_.leased;
    agent.noticed = place.noticed;
    agent.offered = !place.drain || !settings_.leased;  // the next lease may contain it again
    // There is no agent to wait for.
    if (place.drained) {
      agent.link = Link::kDown;
      continue;
    }
    agent.link = Link::kUp;
    agent.cut_off = true;
    agent.last_seen = out_.now();
    agent.lost_reason = "it did not come back within " + protocol::duration_text(settings_.resume_timeout);
    agent.reconnect_timer = out_.arm({TimerKind::kReconnect, {}, agent.id}, out_.now() + settings_.resume_timeout);
  }
  for (const Resumed::WorkerPlace& place : event.workers) {
    if (roster_.agent(place.agent) == nullptr) continue;
    Worker& worker = roster_.restore_worker(place.worker, {place.agent, place.slot});
    if (end_.finished.contains(place.worker)) worker.seat = Seat::kFinished;
    worker.is_first =
        event.first ? place.worker == *event.first : !event.members.empty() && place.worker == event.members.front();
    worker.may_lead = worker.is_first && settings_.keeps_first;
  }
  startup_.plain_restarts = event.plain_restarts;
  startup_.spawned = !roster_.workers().empty();
  startup_.hosts_known = startup_.spawned;
  startup_.expired = startup_.spawned;
  startup_.spawned_at = out_.now();
  startup_.first_size = static_cast<std::uint32_t>(roster_.workers().size());
  if (startup_.spawned && settings_.last_call != Millis{0}) {
    out_.arm({TimerKind::kFixed, {}, {}}, out_.now() + settings_.ready_timeout);
  }
}

void Takeover::restore_generation(const Resumed& event) {
  ET_CHECK(training_.issued == 0, "a run is taken over before it issues a number");
  training_.issued = event.issued;
  training_.lineage = event.lineage;
  for (const protocol::Fence& fence : training_.lineage) audit_.fence(fence);
  training_.learning_rate_factor = event.learning_rate_factor;
  training_.synchronization = event.synchronization;
  resume_.unsettled = event.unsettled;
  std::vector<WorkerId> seated;
  std::set<WorkerId> once;
  const auto seat = [&](WorkerId id, std::uint32_t share) {
    Worker* worker = roster_.worker(id);
    if (worker == nullptr) {
      // Its exit was recorded, but not the consequence; if it had finished there is none.
      resume_.unsettled = resume_.unsettled || !end_.finished.contains(id);
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
  training_.generation = seated.empty() ? 0 : event.generation;
  training_.restarting = seated.empty() && (event.restarting || !training_.lineage.empty());
  startup_.elastic = training_.generation != 0 || !seated.empty() || training_.restarting;
  startup_.spawned = startup_.spawned || training_.restarting;
  training_.size_reason = "the run was taken over";
  training_.set_members(std::move(seated));
  // A run of a cluster has its hosts, even if the cluster does not repeat its lease.
  const bool begins = settings_.leased && !startup_.spawned && !roster_.agents().empty();
  if (begins && desired_.lease.slots >= settings_.min_workers) {
    startup_.hosts_known = true;
    startup_.timer = out_.arm({TimerKind::kStart, {}, {}}, out_.now() + settings_.start_timeout);
  }
  resume_.waiting = (startup_.spawned || begins) && !roster_.agents().empty();
  hangs_.seat(training_.generation, roster_.unfinished(training_.members));
}

// Nothing is decided before every agent is back or given up.
void Takeover::advance() {
  const bool waits = std::any_of(roster_.agents().begin(), roster_.agents().end(),
                                 [](const auto& entry) { return entry.second.cut_off; });
  if (waits) return;
  resume_.waiting = false;
  out_.look_again();
  for (auto& [id, worker] : roster_.workers()) {
    if (!worker.ready() && !worker.seated() && !worker.dying() && startup_.elastic && worker.timer == 0)
      workers_.expect_ready(worker);
  }
  const bool over = !end_.finished.empty() && roster_.nobody_trains();
  const bool broken =
      std::exchange(resume_.unsettled, false) && !training_.members.empty() && !recovery_.active() && !over;
  out_.journal(record::AllBack{training_.generation, roster_.workers().size()});
  if (broken) halt_.begin_recovery("the supervisor was replaced in the middle of a change");
}

}  // namespace elastictrain::core
