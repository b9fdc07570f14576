#include "tests/simulation/agent_process.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "supervisor/protocol/limits.h"
#include "tests/simulation/supervisor_process.h"
#include "tests/simulation/worker_process.h"
#include "tests/simulation/world.h"

namespace elastictrain::simulation {
namespace {

using namespace protocol;
constexpr Millis kRetryPeriod{500};
constexpr Micros kMinLocal{20};
constexpr Micros kMaxLocal{400};

}  // namespace

AgentProcess::AgentProcess(World& world, AgentId id, Host& host) : world_(world), id_(id), host_(host) {}
AgentProcess::~AgentProcess() = default;

// Messages that arrive while the process is stopped wait for it.
void AgentProcess::deliver(std::function<void()> work) {
  if (paused_) {
    backlog_.push_back(std::move(work));
  } else {
    work();
  }
}

void AgentProcess::begin() {
  last_seen_ = world_.queue.now();
  connect(world_.setup.connect_timeout);
}

// ---------------------------------------------------------------------------------------------------------------
// The connection

void AgentProcess::connect(Millis timeout) {
  const auto delay = world_.rng.time(Micros(500), Micros(20'000));
  world_.queue.after(delay, [this, timeout, life = std::weak_ptr(life_)] {
    if (life.expired()) return;
    deliver([this, timeout] {
      if (connection_ || stopping_) return;
      const bool reachable = world_.supervisor && world_.supervisor->listens() && !host_.cut_up && !host_.cut_down;
      if (reachable) return connected_to_supervisor(world_.new_connection(host_));
      if (!was_up_ && timeout > kRetryPeriod) {
        world_.queue.after(kRetryPeriod, [this, timeout, life = std::weak_ptr(life_)] {
          if (!life.expired()) connect(timeout - kRetryPeriod);
        });
        return;
      }
      attempt_failed();
    });
  });
}

void AgentProcess::connected_to_supervisor(Connection& connection) {
  connection_ = &connection;
  last_seen_ = world_.queue.now();
  connection_->down.set_receiver(
      [this, same = connection_, life = std::weak_ptr(life_)](const AgentDown& message) {
        if (life.expired()) return;
        deliver([this, same, message] {
          if (connection_ == same) take(message);
        });
      },
      [this, same = connection_, life = std::weak_ptr(life_)] {
        if (life.expired()) return;
        deliver([this, same] {
          if (connection_ == same) lost();
        });
      });
  world_.supervisor->accept(id_, *connection_);
  AgentHello hello;
  hello.protocol_version = limits::kProtocolVersion;
  hello.agent = id_;
  hello.host_name = host_.name;
  for (const WorkerId worker : workers_) hello.workers.push_back(worker);
  hello.warm = warm_;
  send(hello);
  const bool first = !std::exchange(was_up_, true);
  if (first) {
    tick();
  } else {
    resync();
  }
}

void AgentProcess::send(AgentUp message) {
  if (connection_) connection_->up.send(std::move(message));
}

void AgentProcess::resync() {
  for (auto& [id, record] : records_) {
    if (workers_.contains(id)) send(WorkerSpawned{id, 1000});
    for (const auto& message : record.resync(reports_ + 1)) send(FromWorker{id, message});
  }
  for (const auto& exited : exits_) send(exited);
}

void AgentProcess::break_connection() {
  if (!connection_) return;
  world_.log(id_, [&] { return "its connection to the supervisor breaks"; });
  connection_->up.close(false);
  connection_->down.close(false);
}

void AgentProcess::lost() {
  world_.log(id_, [] { return "has lost the supervisor"; });
  connection_->up.close(true);
  connection_ = nullptr;
  last_seen_ = world_.queue.now();
  attempt_failed();
}

void AgentProcess::attempt_failed() {
  const auto away = world_.queue.now() - last_seen_;
  if (!was_up_ || away >= world_.setup.orphan_grace) return gone();
  world_.queue.after(kRetryPeriod, [this, life = std::weak_ptr(life_)] {
    if (life.expired()) return;
    deliver([this] {
      if (!connection_ && !stopping_) connect(Millis(0));
    });
  });
}

void AgentProcess::gone() {
  if (std::exchange(orphaned_, true)) return;
  world_.lose_audits();
  world_.undisturbed = false;
  world_.log(id_, [] { return "gives the supervisor up"; });
  connection_ = nullptr;
  for (const WorkerId worker : workers_) {
    const WorkerDown orphaned = Orphaned{"the supervisor is gone"};
    if (WorkerProcess* process = world_.worker(worker)) process->receive(orphaned);
  }
  world_.queue.after(world_.setup.settings.grace, [this, life = std::weak_ptr(life_)] {
    if (!life.expired()) deliver([this] { stop(Millis(1'000)); });
  });
  stopping_ = true;
  end_if_empty();
}

// ---------------------------------------------------------------------------------------------------------------
// Orders

void AgentProcess::take(const AgentDown& message) {
  last_seen_ = world_.queue.now();
  std::visit([this](const auto& order) { on(order); }, message);
}

void AgentProcess::on(const SupervisorHeartbeat& heartbeat) {
  for (auto& [id, record] : records_) record.acknowledged(heartbeat.acknowledged_report);
}

void AgentProcess::on(const SpawnWorker& order) {
  if (stopping_ || workers_.contains(order.worker)) return;
  if (world_.rng.chance(world_.fault_rates.spawn_fails)) {
    return send(WorkerSpawnFailed{order.worker, "out of processes"});
  }
  workers_.insert(order.worker);
  slots_[order.worker] = order.slot;
  records_[order.worker];
  const bool warm = order.warm && take_warm(order.slot);
  if (warm) world_.log(id_, [&] { return to_string(order.worker) + " is a warm process"; });
  send(WorkerSpawned{order.worker, 1000});
  auto process = std::make_unique<WorkerProcess>(world_, order.worker, id_, host_, order.environment, warm);
  WorkerProcess& started = *process;
  world_.workers[order.worker] = std::move(process);
  started.begin();
}

bool AgentProcess::shares_slot(WorkerId worker) const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [&](WorkerId other) { return other != worker && slots_.at(other) == slots_.at(worker); });
}

// The program of a warm process stays where it is, and whatever the worker before had is gone with it.
bool AgentProcess::take_warm(std::uint32_t slot) {
  const auto found = std::find_if(warm_.begin(), warm_.end(),
                                  [&](const auto& process) { return process.slot == slot && !process.ending; });
  if (found == warm_.end()) return false;
  warm_.erase(found);
  warm_changed();
  return true;
}

void AgentProcess::on(const KeepWarm& order) {
  if (workers_.contains(order.worker)) keep_.insert(order.worker);
}

void AgentProcess::on(const EndWarm& order) {
  end_warm(order.worker, world_.rng.time(Micros(500), Micros(300'000)));
}

void AgentProcess::keep_warm(WorkerId worker) {
  warm_.push_back({worker, slots_[worker], 1000});
  warm_changed();
  // Its time is over, it needs too much memory, or it fails.
  world_.queue.after(world_.rng.time(Micros(1'000), Micros(20'000'000)), [this, worker, life = std::weak_ptr(life_)] {
    if (!life.expired()) deliver([this, worker] { end_warm(worker, Micros(1'000)); });
  });
}

void AgentProcess::end_warm(WorkerId was, Micros after) {
  for (auto& process : warm_) {
    if (process.worker != was || std::exchange(process.ending, true)) continue;
    warm_changed();
    world_.queue.after(after, [this, was, life = std::weak_ptr(life_)] {
      if (life.expired()) return;
      deliver([this, was] {
        std::erase_if(warm_, [&](const auto& each) { return each.worker == was; });
        warm_changed();
      });
    });
  }
}

void AgentProcess::warm_changed() {
  send(WarmProcesses{warm_});
}

void AgentProcess::on(const StopWorker& order) {
  stop_worker(order.worker, Millis(order.grace_ms));
}

void AgentProcess::stop_worker(WorkerId worker, Millis grace) {
  if (!workers_.contains(worker)) return;
  if (WorkerProcess* process = world_.worker(worker)) process->stop(grace);
}

void AgentProcess::on(const ToWorkers& order) {
  for (const WorkerId id : order.workers) {
    if (!workers_.contains(id)) continue;
    if (WorkerProcess* process = world_.worker(id)) process->receive(order.message);
  }
}

// The collectives are those of all workers, also if the suspected one is gone by then.
void AgentProcess::on(const AskAgent& order) {
  if (order.question == Question::kCollectives) return answer(order, Micros(3'000'000), "all ranks wait");
  if (workers_.contains(order.worker)) answer(order, Micros(300'000), "in a loop");
}

void AgentProcess::answer(const AskAgent& order, Micros latest, std::string line) {
  const AgentAnswer answer{order.question, order.worker, {std::move(line)}};
  world_.queue.after(world_.rng.time(Micros(1'000), latest), [this, answer, life = std::weak_ptr(life_)] {
    if (!life.expired()) deliver([this, answer] { send(answer); });
  });
}

void AgentProcess::on(const StopAgent& order) {
  world_.log(id_, [] { return "is told to stop"; });
  stop(Millis(order.grace_ms));
}

void AgentProcess::stop(Millis grace) {
  stopping_ = true;
  const std::set<WorkerId> all = workers_;
  for (const WorkerId id : all) stop_worker(id, grace);
  end_if_empty();
}

void AgentProcess::notice() {
  world_.log(id_, [] { return "its host is about to go away"; });
  send(HostNotice{"the probe says so"});
}

// ---------------------------------------------------------------------------------------------------------------
// Workers

void AgentProcess::on_worker_message(WorkerId worker, WorkerToAgent message) {
  world_.queue.after(world_.rng.time(kMinLocal, kMaxLocal),
                     [this, worker, message = std::move(message), life = std::weak_ptr(life_)] {
                       if (life.expired()) return;
                       deliver([this, worker, message] {
                         if (!workers_.contains(worker)) return;
                         const auto forwarded = records_[worker].take(message, world_.queue.now(), reports_ + 1);
                         if (forwarded) send(FromWorker{worker, *forwarded});
                       });
                     });
}

void AgentProcess::worker_exited(WorkerId worker, int exit_code, int signal) {
  // Its last messages are still in its socket.
  world_.queue.after(kMaxLocal, [this, worker, exit_code, signal, life = std::weak_ptr(life_)] {
    if (life.expired()) return;
    deliver([this, worker, exit_code, signal] {
      const bool in_order = exit_code == 0 && signal == 0;
      if (keep_.erase(worker) != 0 && in_order && !stopping_) keep_warm(worker);
      send_report();
      WorkerExited exited{worker, exit_code, signal, {}};
      exited.out_of_memory = signal == SIGKILL && world_.setup.kills_for_memory;
      send(exited);
      exits_.push_back(exited);
      workers_.erase(worker);
      end_if_empty();
    });
  });
}

void AgentProcess::tick() {
  deliver([this] {
    send_report();
    const auto limit = std::max(world_.setup.orphan_grace, Millis(3'000));
    if (connection_ && world_.queue.now() - last_seen_ >= limit) gone();
  });
  world_.queue.after(world_.setup.heartbeat, [this, life = std::weak_ptr(life_)] {
    if (!life.expired() && !orphaned_) tick();
  });
}

void AgentProcess::send_report() {
  if (!connection_) return;
  AgentReport report{++reports_, {}};
  for (const WorkerId id : workers_) {
    launcher::ProcessSample process_sample;
    if (const WorkerProcess* process = world_.worker(id)) process_sample = {process->cpu_ms(), process->stopped()};
    auto sample = records_[id].sample(id, world_.queue.now(), 2 * world_.setup.heartbeat, process_sample);
    if (sample) report.workers.push_back(std::move(*sample));
  }
  send(report);
}

// ---------------------------------------------------------------------------------------------------------------
// The end

void AgentProcess::end_if_empty() {
  if (stopping_ && workers_.empty()) end();
}

void AgentProcess::end() {
  if (!world_.supervisor->receives(id_, connection_)) world_.lose_audits();
  if (connection_) connection_->up.close(true);
  connection_ = nullptr;
  life_ = std::make_shared<char>();
  world_.log(id_, [] { return "ends"; });
  world_.agent_ended(id_);
}

void AgentProcess::kill() {
  world_.log(id_, [] { return "is killed"; });
  world_.lose_audits();
  life_ = std::make_shared<char>();
  for (const WorkerId id : workers_) {
    if (WorkerProcess* process = world_.worker(id)) process->die(0, SIGKILL);
  }
  workers_.clear();
  if (connection_) connection_->up.close(world_.rng.chance(0.5));
  connection_ = nullptr;
  world_.agent_ended(id_);
}

void AgentProcess::vanish() {
  world_.lose_audits();
  life_ = std::make_shared<char>();
  for (const WorkerId id : workers_) {
    if (WorkerProcess* process = world_.worker(id)) process->die(0, SIGKILL);
  }
  if (connection_) connection_->up.vanish();
  connection_ = nullptr;
  world_.agent_ended(id_);
}

void AgentProcess::pause() {
  world_.stalled = true;
  paused_ = true;
}

void AgentProcess::resume() {
  paused_ = false;
  while (!backlog_.empty() && !paused_) {
    const auto work = std::move(backlog_.front());
    backlog_.pop_front();
    work();
  }
}

}  // namespace elastictrain::simulation
