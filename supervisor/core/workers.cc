#include "supervisor/core/workers.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace elastictrain::core {

void end_for_good(Run& run, Worker& worker) {
  run.out.cancel(worker.timer);
  run.out.journal(record::Killed{worker.id, worker.host});
  run.out.emit(StopWorker{worker.id, 0});
}

const std::vector<WorkerId>& newest_members(const Run& run) {
  if (run.recovery.active() && run.change.stage != Stage::kCommitted) return run.training.members;
  const bool newer = run.change.stage == Stage::kCommitted || run.training.generation == 0;
  return newer ? run.change.members : run.training.members;
}

std::string name_of(const Run& run, const Worker& worker) {
  // The processes of a plain program keep the ranks of their start, whichever of them have ended.
  if (run.startup.is_plain()) {
    return "rank " + std::to_string(worker.expected_rank) + " (" + to_string(worker.id) + " on " + worker.host + ")";
  }
  const auto& members = newest_members(run);
  const auto found = std::find(members.begin(), members.end(), worker.id);
  std::string name = to_string(worker.id) + " on " + worker.host;
  const auto old_rank = run.recovery.ranks.find(worker.id);
  if (old_rank != run.recovery.ranks.end()) return "rank " + std::to_string(old_rank->second) + " (" + name + ")";
  if (found != members.end()) name = "rank " + std::to_string(found - members.begin()) + " (" + name + ")";
  return name;
}

// A script that changes nothing may keep the rank of its environment for good, and save and print where it is 0. Where
// no worker has it any more, the next one is started with it. A process that was another worker keeps what it has read.
// A program that was written for the session asks it for the rank, and what its oldest worker holds (a log, a best
// score) is worth more.
static std::optional<WorkerId> successor_of_first(const Run& run, const std::vector<WorkerId>& next,
                                                  const std::vector<WorkerId>& fresh) {
  const auto is_fresh = [&](WorkerId id) { return std::find(fresh.begin(), fresh.end(), id) != fresh.end(); };
  if (run.training.generation != 0 && !run.settings.keeps_first) return std::nullopt;
  if (!run.start_failures.no_first.empty() || next.empty() || is_fresh(next.front())) return std::nullopt;
  std::optional<WorkerId> successor;
  for (WorkerId id : next) {
    const Worker& worker = *run.roster.worker(id);
    if (worker.is_first && !run.desired.replacements.contains(id)) return std::nullopt;
    if (!successor && is_fresh(id) && run.roster.warm_process(worker.place()) == nullptr) successor = id;
  }
  return successor;
}

// Where no worker holds the state any more, processes begin anew: with the newest checkpoint.
static bool take_warm(Run& run, const Worker& worker) {
  if (run.training.restarting || run.roster.warm_process(worker.place()) == nullptr) return false;
  std::erase_if(run.roster.agent(worker.agent)->warm, [&](const auto& process) { return process.slot == worker.slot; });
  return true;
}

void start_workers(Run& run, const std::vector<WorkerId>& next, const std::vector<WorkerId>& fresh) {
  std::vector<WorkerId> world = next;
  for (WorkerId id : fresh) {
    if (std::find(next.begin(), next.end(), id) == next.end()) world.push_back(id);
  }
  std::map<std::string, std::uint32_t> on_host;
  std::map<std::string, std::uint32_t> node_rank;
  std::map<WorkerId, SpawnWorker> spawns;
  for (std::uint32_t rank = 0; rank < world.size(); ++rank) {
    const Worker& worker = *run.roster.worker(world[rank]);
    const auto node = static_cast<std::uint32_t>(node_rank.size());
    node_rank.try_emplace(worker.host, node);
    ++on_host[worker.host];
    spawns[worker.id] = {.worker = worker.id,
                         .agent = worker.agent,
                         .host = worker.host,
                         .slot = worker.slot,
                         .slots = run.roster.agent(worker.agent)->slots,
                         .rank = rank,
                         .local_rank = worker.slot,
                         .world_size = 0,
                         .local_world_size = 0,
                         .node_rank = node_rank[worker.host]};
  }
  const std::optional<WorkerId> successor = successor_of_first(run, next, fresh);
  if (successor) spawns[*successor].rank = 0;
  for (WorkerId id : fresh) {
    Worker& worker = *run.roster.worker(id);
    worker.started_at = run.out.now();
    SpawnWorker spawn = spawns[id];
    spawn.world_size = std::max<std::uint32_t>(static_cast<std::uint32_t>(next.size()), spawn.rank + 1);
    spawn.local_world_size = std::max(on_host[worker.host], spawn.local_rank + 1);
    if (run.training.restarting && run.settings.has_checkpoints) {
      spawn.from_checkpoint = true;
      spawn.lineage = run.training.lineage;
    }
    worker.expected_rank = spawn.rank;
    worker.is_first = spawn.rank == 0;
    spawn.warm = worker.was_warm = take_warm(run, worker);
    run.out.journal(record::Spawn{id, worker.host, worker.agent, worker.slot});
    if (id == successor) run.out.journal(record::FirstSuccessor{id});
    run.out.emit(spawn);
    if (run.startup.elastic) expect_ready(run, worker);
  }
}

void note_failed_start(Run& run, const Worker& worker, const std::string& why) {
  if (worker.is_first && run.training.generation != 0)
    run.start_failures.no_first = to_string(worker.id) + " on " + worker.host + ": " + why;
}

void expect_ready(Run& run, Worker& worker) {
  worker.timer = run.out.arm({TimerKind::kReady, worker.id, {}}, run.out.now() + run.settings.ready_timeout);
}

void expect_exit(Run& run, Worker& worker) {
  worker.order_end(EndOrder::kExpected);
  run.out.cancel(worker.timer);
  worker.timer = run.out.arm({TimerKind::kLeave, worker.id, {}}, run.out.now() + run.settings.grace);
}

void drop_joiner(Run& run, const Worker& worker, const std::string& why, Retry retry) {
  note_failed_start(run, worker, why);
  const std::uint32_t failures = run.roster.blame(worker.place(), retry == Retry::kOnce ? 1 : 2);
  if (run.roster.is_blamed(worker.place())) {
    const Instant again = run.out.now() + run.health.cool_down(failures);
    run.roster.rest(worker.place(), again);
    run.out.arm({TimerKind::kCooled, {}, {}}, again);
  }
  run.out.journal(record::Dropped{worker.id, why});
  // At the start all workers of a host fail alike.
  const std::string cause = worker.host + " " + why;
  const bool is_reported = run.training.generation == 0 && cause == run.start_failures.reported;
  run.start_failures.reported = cause;
  run.start_failures.newest = to_string(worker.id) + " on " + cause;
  if (!is_reported) run.out.tell(Tell::Level::kWarning, "new worker " + to_string(worker.id) + " on " + cause);
  run.out.look_again();
}

void expel_joiner(Run& run, WorkerId id, const std::string& why) {
  Worker& worker = *run.roster.worker(id);
  if (worker.dying()) return;
  drop_joiner(run, worker, why, Retry::kNever);
  stop_worker(run, worker);
}

void dismiss(Run& run, Worker& worker, const std::string& reason) {
  if (worker.dying()) return;
  run.out.journal(record::Dismissed{worker.id, reason});
  if (!worker.ready()) {
    // It is not listening yet, or not in a place where it would act on messages.
    stop_worker(run, worker);
    return;
  }
  run.out.send({worker.id}, protocol::Dismiss{reason});
  worker.order_end(EndOrder::kDismiss);
  expect_exit(run, worker);
}

void stop_worker(Run& run, Worker& worker) {
  if (worker.hung()) return;  // its end is in progress
  run.out.cancel(worker.timer);
  if (worker.stop_sent()) return;
  worker.order_end(EndOrder::kStop);
  run.out.emit(StopWorker{worker.id, static_cast<std::uint64_t>(run.settings.grace.count())});
}

// The process has exited: remove it everywhere.
void remove_worker(Run& run, WorkerId id) {
  Worker* worker = run.roster.worker(id);
  if (worker == nullptr) return;
  run.out.cancel(worker->timer);
  run.change.waiting.erase(id);
  run.recovery.waiting.erase(id);
  run.hangs.forget(id);
  run.desired.replacements.erase(id);
  run.roster.remove_worker(id);
  run.out.look_again();
}

}  // namespace elastictrain::core
