#include "tests/unit/core/fake_world.h"

#include <algorithm>

#include "supervisor/core/transitions.h"
#include "supervisor/protocol/limits.h"
#include "tests/golden/describe.h"

namespace elastictrain::core {
namespace {

std::function<Token()> counting_tokens() {
  return [n = std::uint8_t{0}]() mutable {
    Token token{};
    token[0] = ++n;
    return token;
  };
}

}  // namespace

FakeWorld::FakeWorld(std::uint64_t seed, RunSettings settings, WorldFaults faults)
    : random_(seed), faults_(faults), machine_(std::move(settings), counting_tokens()) {}

FakeWorld::FakeWorker* FakeWorld::find(WorkerId id) {
  const auto found = workers_.find(id);
  return found == workers_.end() || found->second.exiting ? nullptr : &found->second;
}

void FakeWorld::feed(const Event& event) {
  story_.push_back("> " + std::string(name_of(event)) + " at " +
                   std::to_string(now_.time_since_epoch().count() / 1000));
  const bool was_over = exit_status_.has_value();
  const Actions actions = machine_.step(event, now_);
  for (const Action& action : actions) {
    if (const std::string text = describe(action); !text.empty()) story_.push_back("  " + text);
    if (was_over && !std::holds_alternative<Reply>(action)) violation("an action after the end");
    std::visit([this](const auto& a) { perform(a); }, action);
  }
}

void FakeWorld::run_for(Millis time) {
  const Instant until = now_ + time;
  while (!queue_.empty() && queue_.begin()->first <= until) {
    auto entry = queue_.extract(queue_.begin());
    now_ = std::max(now_, entry.key());
    entry.mapped()();
  }
  now_ = until;
}

void FakeWorld::offer(std::vector<HostSlots> hosts) {
  for (const HostSlots& host : hosts) story_.push_back("# " + host.host + ":" + std::to_string(host.slots));
  feed(HostsOffered{std::move(hosts)});
}

std::uint64_t FakeWorld::ask(Event event, std::uint64_t request) {
  open_requests_.insert(request);
  feed(event);
  return request;
}

std::uint64_t FakeWorld::request_resize(std::uint32_t target) {
  const std::uint64_t request = ++last_request_;
  return ask(Resize{request, target, ""}, request);
}

std::uint64_t FakeWorld::request_replace(std::uint32_t rank) {
  const std::uint64_t request = ++last_request_;
  return ask(ReplaceWorker{request, rank}, request);
}

std::uint64_t FakeWorld::request_replace_host(const std::string& host) {
  const std::uint64_t request = ++last_request_;
  return ask(ReplaceHost{request, host}, request);
}

std::uint64_t FakeWorld::request_drain(const std::string& host) {
  const std::uint64_t request = ++last_request_;
  return ask(DrainHost{request, host}, request);
}

void FakeWorld::request_stop(StopCause cause) {
  const std::uint64_t request = ++last_request_;
  ask(Stop{request, cause}, request);
}

void FakeWorld::kill_member(std::uint32_t rank) {
  if (FakeWorker* worker = find(training_.at(rank))) exit_worker(*worker, 0, 9, Millis(1));
}

void FakeWorld::lose_host_without_members() {
  for (AgentId id : agents_) {
    const bool trains = std::any_of(workers_.begin(), workers_.end(), [&](const auto& entry) {
      const FakeWorker& worker = entry.second;
      return worker.agent == id && worker.commit_sent;
    });
    if (trains) continue;
    std::erase_if(workers_, [&](const auto& entry) { return entry.second.agent == id; });
    agents_.erase(id);
    feed(AgentLost{id, "link down"});
    return;
  }
}

void FakeWorld::finish() {
  finishing_ = true;
  for (WorkerId id : std::vector<WorkerId>(training_)) {
    FakeWorker* worker = find(id);
    if (worker == nullptr) continue;
    say(*worker, protocol::WorkerFinished{1000}, delay(50));
    exit_worker(*worker, 0, 0, delay(50));
  }
}

void FakeWorld::perform(const LaunchAgent& action) {
  const AgentId id = action.agent;
  if (chance(faults_.launch_fails)) {
    at(now_ + delay(500), [this, id] { feed(AgentLost{id, "no route to host"}); });
    return;
  }
  agents_.insert(id);
  at(now_ + delay(500), [this, id] {
    if (agents_.contains(id)) feed(AgentConnected{id});
  });
}

void FakeWorld::perform(const StopAgent& action) {
  const AgentId id = action.agent;
  if (agents_.erase(id) == 0) return;
  for (auto& [worker_id, worker] : workers_) {
    if (worker.agent == id && !worker.exiting) exit_worker(worker, 0, 15, delay(20));
  }
  at(now_ + delay(50) + Millis(1000), [this, id] { feed(AgentLost{id, "ended"}); });
}

void FakeWorld::perform(const SpawnWorker& action) {
  const WorkerId id = action.worker;
  if (!agents_.contains(action.agent)) violation("a worker was started on an agent that is not there");
  if (chance(faults_.spawn_fails)) {
    at(now_ + delay(50), [this, id] { feed(WorkerSpawnFailed{id, "no such file"}); });
    return;
  }
  FakeWorker& worker = workers_[id];
  worker.id = id;
  worker.agent = action.agent;
  worker.last_up = worker.last_down = now_;
  worker.doomed = chance(faults_.joiner_dies);
  begin(worker);
}

void FakeWorld::begin(FakeWorker& worker) {
  const WorkerId id = worker.id;
  if (worker.doomed && training_generation_ != 0 && chance(0.5)) {
    exit_worker(worker, 0, 11, delay(300));
    return;
  }
  at(now_ + delay(200), [this, id] {
    if (FakeWorker* self = find(id)) self->listens = true;
  });
  say(worker, protocol::WorkerHello{limits::kProtocolVersion, id, 100, "fake"}, Millis(200));
  if (training_generation_ != 0 && chance(faults_.joiner_hangs)) return;
  say(worker, protocol::WorkerReady{{}, 1000, 1, 50000}, delay(2000));
}

void FakeWorld::perform(const StopWorker& action) {
  if (FakeWorker* worker = find(action.worker)) exit_worker(*worker, 0, 15, delay(100));
}

void FakeWorld::perform(const SendToWorkers& action) {
  if (const auto* prepare = std::get_if<protocol::Prepare>(&action.message)) {
    plans_[prepare->plan.generation] = prepare->plan;
  }
  for (WorkerId id : action.workers) {
    FakeWorker* worker = find(id);
    if (worker == nullptr) continue;
    if (std::holds_alternative<protocol::Commit>(action.message)) worker->commit_sent = true;
    worker->last_down = std::max<Instant>(worker->last_down, now_ + delay(20));
    at(worker->last_down, [this, id, message = action.message] { deliver(id, message); });
  }
}

void FakeWorld::perform(const ArmTimer& action) {
  timers_.insert(action.timer);
  at(std::max(action.when, now_), [this, timer = action.timer] {
    if (timers_.erase(timer) > 0) feed(TimerFired{timer});
  });
}

void FakeWorld::perform(const CancelTimer& action) {
  if (timers_.erase(action.timer) == 0) violation("a timer was cancelled that is not armed");
}

void FakeWorld::perform(const Journal& action) {
  if (action.event == "invariant_broken") violation(describe(action));
}

void FakeWorld::perform(const Reply& action) {
  if (open_requests_.erase(action.request) == 0)
    violation("a second reply to request " + std::to_string(action.request));
}

void FakeWorld::perform(const EndRun& action) {
  exit_status_ = action.exit_status;
}

void FakeWorld::say(FakeWorker& worker, protocol::WorkerUp message, Millis after) {
  worker.last_up = std::max<Instant>(worker.last_up, now_ + after);
  at(worker.last_up, [this, id = worker.id, message = std::move(message)] {
    if (workers_.contains(id)) feed(WorkerSaid{id, message});
  });
}

void FakeWorld::exit_worker(FakeWorker& worker, int code, int signal, Millis after) {
  worker.exiting = true;
  worker.last_up = std::max<Instant>(worker.last_up, now_ + after);
  at(worker.last_up, [this, id = worker.id, code, signal] {
    if (workers_.erase(id) > 0) feed(WorkerExited{id, code, signal, {}});
  });
}

void FakeWorld::deliver(WorkerId id, const protocol::WorkerDown& message) {
  FakeWorker* worker = find(id);
  if (worker == nullptr) return;
  if (!worker->listens) violation(to_string(id) + " was spoken to before it said hello");
  std::visit([&](const auto& m) { receive(*worker, m); }, message);
}

void FakeWorld::receive(FakeWorker& worker, const protocol::Prepare& message) {
  if (worker.plan && worker.plan->generation >= message.plan.generation) violation("plans run backwards");
  worker.plan = message.plan;
  worker.prepared = false;
  const Generation generation = message.plan.generation;
  const bool trains = std::find(training_.begin(), training_.end(), worker.id) != training_.end();
  if (!trains && worker.doomed && training_generation_ != 0) {
    exit_worker(worker, 0, 11, delay(100));
    return;
  }
  if (chance(faults_.prepare_fails)) {
    say(worker, protocol::WorkerPrepareFailed{generation, "peer did not answer"}, delay(100));
    return;
  }
  at(now_ + delay(200), [this, id = worker.id, generation] {
    FakeWorker* self = find(id);
    if (self == nullptr || !self->plan || self->plan->generation != generation) return;
    self->prepared = true;
    say(*self, protocol::WorkerPrepared{generation}, delay(20));
  });
}

void FakeWorld::receive(FakeWorker& worker, const protocol::Cancel& message) {
  if (worker.committed == message.generation) violation("a committed generation was cancelled");
  if (worker.plan && worker.plan->generation == message.generation) worker.plan.reset();
}

void FakeWorld::receive(FakeWorker& worker, const protocol::Commit& message) {
  if (!worker.plan || worker.plan->generation != message.generation || !worker.prepared) {
    violation(to_string(worker.id) + " got a commit for a plan that it has not prepared");
    return;
  }
  worker.committed = message.generation;
  try_swap(message.generation);
}

void FakeWorld::receive(FakeWorker& worker, const protocol::Dismiss&) {
  const bool trains = std::find(training_.begin(), training_.end(), worker.id) != training_.end();
  if (trains) violation("member " + to_string(worker.id) + " was dismissed");
  exit_worker(worker, 0, 0, delay(100));
}

// The boundary: everybody concerned has the commit.
void FakeWorld::try_swap(Generation generation) {
  const protocol::GenerationPlan& plan = plans_.at(generation);
  std::set<WorkerId> concerned(training_.begin(), training_.end());
  for (const auto& member : plan.members) concerned.insert(member.worker);
  for (WorkerId id : concerned) {
    const FakeWorker* worker = find(id);
    if (worker == nullptr || worker->committed != generation) return;
  }
  at(now_ + delay(300), [this, generation] {
    if (!finishing_) swap(plans_.at(generation));
  });
}

void FakeWorld::swap(const protocol::GenerationPlan& plan) {
  if (plan.previous != training_generation_) violation("a swap from a generation that does not train");
  std::set<WorkerId> staying;
  for (const auto& member : plan.members) staying.insert(member.worker);
  for (WorkerId id : training_) {
    FakeWorker* worker = find(id);
    if (worker == nullptr || staying.contains(id)) continue;
    say(*worker, protocol::WorkerLeft{plan.generation, 10 * plan.generation}, delay(50));
    exit_worker(*worker, 0, 0, delay(200));
  }
  training_.clear();
  for (const auto& member : plan.members) {
    training_.push_back(member.worker);
    FakeWorker* worker = find(member.worker);
    if (worker == nullptr) continue;
    say(*worker, protocol::WorkerActive{plan.generation, 10 * plan.generation + 1, 0}, delay(50));
  }
  training_generation_ = plan.generation;
}

}  // namespace elastictrain::core
