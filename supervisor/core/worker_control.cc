#include "supervisor/core/worker_control.h"

#include <algorithm>
#include <map>
#include <utility>

#include "supervisor/core/change.h"
#include "supervisor/core/desired_state.h"
#include "supervisor/core/hang_detector.h"
#include "supervisor/core/host_health.h"
#include "supervisor/core/outbox.h"
#include "supervisor/core/recovery.h"
#include "supervisor/core/settings.h"
#include "supervisor/core/startup.h"
#include "supervisor/core/training.h"

namespace elastictrain::core {

WorkerControl::WorkerControl(const RunSettings& settings, Roster& roster, Outbox& out, Startup& startup,
                             Training& training, Change& change, Recovery& recovery, DesiredState& desired,
                             HostHealth& health, HangDetector& hangs)
    : settings_(settings),
      roster_(roster),
      out_(out),
      startup_(startup),
      training_(training),
      change_(change),
      recovery_(recovery),
      desired_(desired),
      health_(health),
      hangs_(hangs) {}

void WorkerControl::end_for_good(Worker& worker) {
  out_.cancel(worker.timer);
  out_.journal(record::Killed{worker.id, worker.host});
  out_.emit(StopWorker{worker.id, 0});
}

const std::vector<WorkerId>& WorkerControl::newest_members() const {
  if (recovery_.active() && change_.stage != Stage::kCommitted) return training_.members;
  const bool newer = change_.stage == Stage::kCommitted || training_.generation == 0;
  return newer ? change_.members : training_.members;
}

std::string WorkerControl::name_of(const Worker& worker) const {
  // The processes of a plain program keep the ranks of their start, whichever of them have ended.
  if (startup_.is_plain()) {
    return "rank " + std::to_string(worker.expected_rank) + " (" + to_string(worker.id) + " on " + worker.host + ")";
  }
  const auto& members = newest_members();
  const auto found = std::find(members.begin(), members.end(), worker.id);
  std::string name = to_string(worker.id) + " on " + worker.host;
  const auto old_rank = recovery_.ranks.find(worker.id);
  if (old_rank != recovery_.ranks.end()) return "rank " + std::to_string(old_rank->second) + " (" + name + ")";
  if (found != members.end()) name = "rank " + std::to_string(found - members.begin()) + " (" + name + ")";
  return name;
}

// `next` is the membership that the new workers expect; `fresh` lists those of it (or spares after them) to start now.
void WorkerControl::start(const std::vector<WorkerId>& next, const std::vector<WorkerId>& fresh) {
  std::vector<WorkerId> world = next;
  for (WorkerId id : fresh) {
    if (std::find(next.begin(), next.end(), id) == next.end()) world.push_back(id);
  }
  std::map<std::string, std::uint32_t> on_host;
  std::map<std::string, std::uint32_t> node_rank;
  std::map<WorkerId, SpawnWorker> spawns;
  for (std::uint32_t rank = 0; rank < world.size(); ++rank) {
    const Worker& worker = *roster_.worker(world[rank]);
    const auto node = static_cast<std::uint32_t>(node_rank.size());
    node_rank.try_emplace(worker.host, node);
    ++on_host[worker.host];
    spawns[worker.id] = {.worker = worker.id,
                         .agent = worker.agent,
                         .host = worker.host,
                         .slot = worker.slot,
                         .slots = roster_.agent(worker.agent)->slots,
                         .rank = rank,
                         .local_rank = worker.slot,
                         .world_size = 0,
                         .local_world_size = 0,
                         .node_rank = node_rank[worker.host]};
  }
  const std::optional<WorkerId> successor = successor_of_first(next, fresh);
  if (successor) spawns[*successor].rank = 0;
  for (WorkerId id : fresh) {
    Worker& worker = *roster_.worker(id);
    worker.started_at = out_.now();
    SpawnWorker spawn = spawns[id];
    spawn.world_size = std::max<std::uint32_t>(static_cast<std::uint32_t>(next.size()), spawn.rank + 1);
    spawn.local_world_size = std::max(on_host[worker.host], spawn.local_rank + 1);
    if (training_.restarting && settings_.has_checkpoints) {
      spawn.from_checkpoint = true;
      spawn.lineage = training_.lineage;
    }
    worker.expected_rank = spawn.rank;
    worker.is_first = spawn.rank == 0;
    spawn.warm = worker.was_warm = take_warm(worker);
    out_.journal(record::Spawn{id, worker.host, worker.agent, worker.slot});
    if (id == successor) out_.journal(record::FirstSuccessor{id});
    out_.emit(spawn);
    if (startup_.elastic) expect_ready(worker);
  }
}

// A script that changes nothing may keep the rank of its environment for good, and save and print where it is 0. Where
// no worker has it any more, the next one is started with it. A process that was another worker keeps what it has read.
// A program that was written for the session asks it for the rank, and what its oldest worker holds (a log, a best
// score) is worth more.
std::optional<WorkerId> WorkerControl::successor_of_first(const std::vector<WorkerId>& next,
                                                          const std::vector<WorkerId>& fresh) const {
  const auto is_fresh = [&](WorkerId id) { return std::find(fresh.begin(), fresh.end(), id) != fresh.end(); };
  if (training_.generation != 0 && !settings_.keeps_first) return std::nullopt;
  if (!no_first_.empty() || next.empty() || is_fresh(next.front())) return std::nullopt;
  std::optional<WorkerId> successor;
  for (WorkerId id : next) {
    const Worker& worker = *roster_.worker(id);
    if (worker.is_first && !desired_.replacements.contains(id)) return std::nullopt;
    if (!successor && is_fresh(id) && roster_.warm_process(worker.place()) == nullptr) successor = id;
  }
  return successor;
}

void WorkerControl::note_failed(const Worker& worker, const std::string& why) {
  if (worker.is_first && training_.generation != 0)
    no_first_ = to_string(worker.id) + " on " + worker.host + ": " + why;
}

// Where no worker holds the state any more, processes begin anew: with the newest checkpoint.
bool WorkerControl::take_warm(const Worker& worker) {
  if (training_.restarting || roster_.warm_process(worker.place()) == nullptr) return false;
  std::erase_if(roster_.agent(worker.agent)->warm, [&](const auto& process) { return process.slot == worker.slot; });
  return true;
}

void WorkerControl::expect_ready(Worker& worker) {
  worker.timer = out_.arm({TimerKind::kReady, worker.id, {}}, out_.now() + settings_.ready_timeout);
}

void WorkerControl::expect_exit(Worker& worker) {
  worker.order_end(EndOrder::kExpected);
  out_.cancel(worker.timer);
  worker.timer = out_.arm({TimerKind::kLeave, worker.id, {}}, out_.now() + settings_.grace);
}

void WorkerControl::drop_joiner(const Worker& worker, const std::string& why, Retry retry) {
  note_failed(worker, why);
  const std::uint32_t failures = roster_.blame(worker.place(), retry == Retry::kOnce ? 1 : 2);
  if (roster_.is_blamed(worker.place())) {
    const Instant again = out_.now() + health_.cool_down(failures);
    roster_.rest(worker.place(), again);
    out_.arm({TimerKind::kCooled, {}, {}}, again);
  }
  out_.journal(record::Dropped{worker.id, why});
  // At the start all workers of a host fail alike.
  const std::string cause = worker.host + " " + why;
  const bool is_reported = training_.generation == 0 && cause == reported_cause_;
  reported_cause_ = cause;
  newest_failure_ = to_string(worker.id) + " on " + cause;
  if (!is_reported) out_.tell(Tell::Level::kWarning, "new worker " + to_string(worker.id) + " on " + cause);
  out_.look_again();
}

void WorkerControl::expel_joiner(WorkerId id, const std::string& why) {
  Worker& worker = *roster_.worker(id);
  if (worker.dying()) return;
  drop_joiner(worker, why, Retry::kNever);
  stop(worker);
}

void WorkerControl::dismiss(Worker& worker, const std::string& reason) {
  if (worker.dying()) return;
  out_.journal(record::Dismissed{worker.id, reason});
  if (!worker.ready()) {
    // It is not listening yet, or not in a place where it would act on messages.
    stop(worker);
    return;
  }
  out_.send({worker.id}, protocol::Dismiss{reason});
  worker.order_end(EndOrder::kDismiss);
  expect_exit(worker);
}

void WorkerControl::stop(Worker& worker) {
  if (worker.hung()) return;  // its end is in progress
  out_.cancel(worker.timer);
  if (worker.stop_sent()) return;
  worker.order_end(EndOrder::kStop);
  out_.emit(StopWorker{worker.id, static_cast<std::uint64_t>(settings_.grace.count())});
}

// The process has exited: remove it everywhere.
void WorkerControl::remove(WorkerId id) {
  Worker* worker = roster_.worker(id);
  if (worker == nullptr) return;
  out_.cancel(worker->timer);
  change_.waiting.erase(id);
  recovery_.waiting.erase(id);
  hangs_.forget(id);
  desired_.replacements.erase(id);
  roster_.remove_worker(id);
  out_.look_again();
}

}  // namespace elastictrain::core
