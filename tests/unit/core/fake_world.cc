#include "tests/unit/core/fake_world.h"

#include <algorithm>
#include <utility>

#include "supervisor/core/transitions.h"
#include "supervisor/protocol/limits.h"
#include "supervisor/protocol/note_keys.h"
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

// Rare, to keep thousands of seeds cheap. The settings' time-outs match it.
constexpr Millis kReportPeriod{10'000};

}  // namespace

FakeWorld::FakeWorld(std::uint64_t seed, RunSettings settings, WorldFaults faults)
    : random_(seed),
      faults_(faults),
      journal_check_(settings.start_workers),
      machine_(std::move(settings), counting_tokens()) {
  at(now_ + kReportPeriod, [this] { reports(); });
}

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
  check_journal();
}

// A supervisor that is lost now is succeeded by one that knows what this one knows.
void FakeWorld::check_journal() {
  if (machine_.ended()) return;
  if (const auto difference = journal_check_.difference(machine_)) violation(*difference);
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

void FakeWorld::kill_somebody() {
  if (training_.empty()) return;
  advance();
  if (FakeWorker* worker = find(training_[pick(static_cast<std::uint32_t>(training_.size()))])) {
    exit_worker(*worker, 0, 9, Millis(1));
  }
}

WorkerId FakeWorld::notice_member() {
  if (training_.empty()) return {};
  FakeWorker* worker = find(training_[pick(static_cast<std::uint32_t>(training_.size()))]);
  if (worker == nullptr || worker->noticed) return {};
  notice(*worker);
  return worker->id;
}

void FakeWorld::notice_somebody() {
  if (workers_.empty() || training_.empty()) return;  // a kill at the first start ends the run
  const auto found = std::next(workers_.begin(), pick(static_cast<std::uint32_t>(workers_.size())));
  if (found->second.listens) notice(found->second);
}

void FakeWorld::notice(FakeWorker& worker) {
  if (std::exchange(worker.noticed, true)) return exit_worker(worker, 0, 15, Millis(1));
  say(worker, protocol::WorkerNote{std::string(protocol::kTermNote), "from process 4711"}, delay(30));
}

void FakeWorld::break_collective() {
  advance();
  for (WorkerId id : training_) {
    FakeWorker* worker = find(id);
    if (worker == nullptr || worker->halted() || !worker->in_loop) continue;
    say(*worker, protocol::WorkerHalted{0, worker->seat, worker->step, worker->has_state, true, "a peer is silent"},
        delay(30));
    return;
  }
}

FakeWorld::FakeAgent* FakeWorld::some_agent() {
  if (agents_.empty()) return nullptr;
  auto found = agents_.begin();
  std::advance(found, pick(static_cast<std::uint32_t>(agents_.size())));
  return found->second.connected ? &found->second : nullptr;
}

void FakeWorld::kill_agent() {
  const FakeAgent* agent = some_agent();
  if (agent == nullptr) return;
  advance();
  const AgentId id =
      std::find_if(agents_.begin(), agents_.end(), [&](const auto& e) { return &e.second == agent; })->first;
  std::erase_if(workers_, [&](const auto& entry) {
    if (entry.second.agent != id) return false;
    answers_.erase(entry.first);
    return true;
  });
  agents_.erase(id);
  feed(AgentLost{id, "killed", LossEvidence::kProcess});
}

void FakeWorld::break_connection(Millis gap) {
  FakeAgent* agent = some_agent();
  if (agent == nullptr) return;
  agent->connected = false;
  const AgentId id =
      std::find_if(agents_.begin(), agents_.end(), [&](const auto& e) { return &e.second == agent; })->first;
  feed(AgentLost{id, "reset", LossEvidence::kConnection});
  at(now_ + gap, [this, id] { connect(id); });
}

void FakeWorld::heal_connections() {
  std::vector<AgentId> broken;
  for (const auto& [id, agent] : agents_) {
    if (!agent.connected && agent.connection > 0) broken.push_back(id);
  }
  for (AgentId id : broken) connect(id);
}

void FakeWorld::connect(AgentId id) {
  const auto found = agents_.find(id);
  if (found == agents_.end() || found->second.connected) return;
  found->second.connected = true;
  ++found->second.connection;
  AgentConnected event{id, {}};
  for (const auto& [worker_id, worker] : workers_) {
    if (worker.agent == id) event.workers.push_back(worker_id);
  }
  const std::vector<std::function<void()>> waiting = std::exchange(found->second.waiting, {});
  feed(event);
  for (const auto& news : waiting) news();
}

// Messages of an agent's workers wait for its connection.
void FakeWorld::from_agent(AgentId id, std::function<void()> news) {
  const auto found = agents_.find(id);
  if (found == agents_.end()) return;
  if (found->second.connected) {
    news();
  } else {
    found->second.waiting.push_back(std::move(news));
  }
}

void FakeWorld::reports() {
  if (exit_status_) return;
  std::vector<AgentReported> reports;
  for (const auto& [id, agent] : agents_) {
    if (!agent.connected) continue;
    AgentReported& report = reports.emplace_back();
    report.agent = id;
    for (const auto& [worker_id, worker] : workers_) {
      if (worker.agent != id || worker.seat == 0) continue;
      protocol::WorkerPulse& pulse = report.report.workers.emplace_back();
      pulse.worker = worker_id;
      pulse.heartbeat.generation = worker.seat;
      pulse.heartbeat.step = worker.step;
    }
  }
  for (const AgentReported& report : reports) feed(report);
  at(now_ + kReportPeriod, [this] { this->reports(); });
}

void FakeWorld::finish() {
  finishing_ = true;
  try_finish();
}

// No worker leaves before all have passed the end.
void FakeWorld::try_finish() {
  if (!finishing_ || !all_train()) return;
  for (WorkerId id : std::vector<WorkerId>(training_)) {
    FakeWorker* worker = find(id);
    worker->has_state = false;
    say(*worker, protocol::WorkerFinished{worker->step}, delay(50));
    exit_worker(*worker, 0, 0, delay(50));
  }
}

void FakeWorld::perform(const LaunchAgent& action) {
  const AgentId id = action.agent;
  if (chance(faults_.launch_fails)) {
    at(now_ + delay(500), [this, id] { feed(AgentLost{id, "no route to host"}); });
    return;
  }
  agents_[id];
  at(now_ + delay(500), [this, id] { connect(id); });
}

void FakeWorld::perform(const StopAgent& action) {
  const AgentId id = action.agent;
  const auto found = agents_.find(id);
  if (found == agents_.end() || (!found->second.connected && found->second.connection > 0)) return;
  for (auto& [worker_id, worker] : workers_) {
    if (worker.agent == id && !worker.exiting) exit_worker(worker, 0, 15, delay(20));
  }
  at(now_ + delay(50) + Millis(1000), [this, id] {
    if (agents_.erase(id) > 0) feed(AgentLost{id, "ended", LossEvidence::kProcess});
  });
}

void FakeWorld::perform(const SpawnWorker& action) {
  const WorkerId id = action.worker;
  if (!agents_.contains(action.agent) || !agents_[action.agent].connected) {
    violation("a worker was started on an agent that is not there");
    return;
  }
  if (chance(faults_.spawn_fails)) {
    at(now_ + delay(50), [this, id, agent = action.agent] {
      from_agent(agent, [this, id] { feed(WorkerSpawnFailed{id, "no such file"}); });
    });
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
  answers_.erase(action.worker);
  FakeWorker* worker = find(action.worker);
  if (worker == nullptr || !agents_[worker->agent].connected) return;
  const RunPhase phase = machine_.view().phase;
  const bool over = phase == RunPhase::kStopping || phase == RunPhase::kEnded;
  if (worker->in_loop && worker->has_state && !worker->suspicious && !over) {
    violation("healthy member " + to_string(worker->id) + " was stopped");
  }
  exit_worker(*worker, 0, 15, delay(100));
}

void FakeWorld::perform(const SendToWorkers& action) {
  if (const auto* prepare = std::get_if<protocol::Prepare>(&action.message)) {
    if (prepare->plan.fence != 0) check_recovery(prepare->plan);
    plans_[prepare->plan.generation] = prepare->plan;
  }
  if (std::holds_alternative<protocol::Abort>(action.message)) advance();
  for (WorkerId id : action.workers) {
    FakeWorker* worker = find(id);
    if (worker == nullptr || !agents_[worker->agent].connected) continue;
    worker->last_down = std::max<Instant>(worker->last_down, now_ + delay(20));
    const std::uint32_t connection = agents_[worker->agent].connection;
    at(worker->last_down, [this, id, connection, message = action.message] {
      const FakeWorker* self = find(id);
      const bool same =
          self != nullptr && agents_[self->agent].connected && agents_[self->agent].connection == connection;
      if (same) deliver(id, message);
    });
  }
}

// The newest state held by any known live worker must count.
void FakeWorld::check_recovery(const protocol::GenerationPlan& plan) {
  Step newest = 0;
  for (const auto& [id, answer] : answers_) {
    if (answer.fence == plan.fence && answer.has_state && answer.in_loop)
      newest = std::max(newest, answer.committed_step);
  }
  if (plan.resume_step != newest) {
    violation("a recovery at step " + std::to_string(plan.resume_step) + " although somebody stands at " +
              std::to_string(newest));
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
  journal_check_.take(action.record);
  if (std::holds_alternative<record::InvariantBroken>(action.record)) violation(describe(action));
  const auto* lost = std::get_if<record::AgentLost>(&action.record);
  if (lost == nullptr) return;
  for (const auto& [id, worker] : workers_) {
    if (worker.agent == lost->agent) answers_.erase(id);
  }
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
  at(worker.last_up, [this, id = worker.id, agent = worker.agent, message = std::move(message)] {
    if (!workers_.contains(id)) return;
    from_agent(agent, [this, id, message] {
      if (const auto* halted = std::get_if<protocol::WorkerHalted>(&message)) answers_[id] = *halted;
      feed(WorkerSaid{id, message});
    });
  });
}

void FakeWorld::exit_worker(FakeWorker& worker, int code, int signal, Millis after) {
  worker.exiting = true;
  worker.last_up = std::max<Instant>(worker.last_up, now_ + after);
  at(worker.last_up, [this, id = worker.id, agent = worker.agent, code, signal] {
    if (workers_.erase(id) == 0) return;
    from_agent(agent, [this, id, code, signal] {
      answers_.erase(id);
      feed(WorkerExited{id, code, signal, {}});
    });
  });
}

void FakeWorld::deliver(WorkerId id, const protocol::WorkerDown& message) {
  FakeWorker* worker = find(id);
  if (worker == nullptr) return;
  if (!worker->listens) violation(to_string(id) + " was spoken to before it said hello");
  std::visit([&](const auto& m) { receive(*worker, m); }, message);
}

void FakeWorld::receive(FakeWorker& worker, const protocol::Prepare& message) {
  const Generation generation = message.plan.generation;
  if (worker.plan && worker.plan->generation == generation) return;
  if (worker.plan && worker.plan->generation > generation) violation("plans run backwards");
  if (generation <= worker.fence) violation("a plan from behind the fence");
  if (message.plan.fence != 0 && worker.seat != 0 && message.plan.fence != worker.fence) {
    violation(to_string(worker.id) + " got a recovery whose fence it has not heard of");
  }
  worker.plan = message.plan;
  worker.prepared = false;
  if (!worker.in_loop && worker.doomed && training_generation_ != 0) {
    exit_worker(worker, 0, 11, delay(100));
    return;
  }
  if (chance(faults_.prepare_fails)) {
    worker.suspicious = true;
    worker.plan.reset();
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
  if (worker.committed == message.generation) return;
  if (!worker.plan || worker.plan->generation != message.generation || !worker.prepared) {
    violation(to_string(worker.id) + " got a commit for a plan that it has not prepared");
    return;
  }
  worker.committed = message.generation;
  if (worker.plan->fence == 0) {
    try_swap(message.generation);
  } else if (worker.plan->members.empty()) {
    worker.in_loop = false;
    say(worker, protocol::WorkerLeft{message.generation, worker.step}, delay(50));
    exit_worker(worker, 0, 0, delay(200));
  } else {
    at(now_ + delay(200),
       [this, id = worker.id, generation = message.generation] { take_recovery_seat(id, generation); });
  }
}

void FakeWorld::receive(FakeWorker& worker, const protocol::Dismiss&) {
  if (worker.seat != 0 && !worker.halted()) violation("member " + to_string(worker.id) + " was dismissed");
  exit_worker(worker, 0, 0, delay(100));
}

void FakeWorld::receive(FakeWorker& worker, const protocol::Abort& message) {
  if (message.fence < worker.fence) violation("fences run backwards");
  if (message.fence > worker.fence) {
    const bool open = ahead_ && worker.in_loop && worker.has_state && !worker.halted() &&
                      worker.seat == training_generation_ && worker.step == step_;
    if (open && chance(0.5)) ++worker.step;
    if (worker.plan && worker.plan->generation <= message.fence) worker.plan.reset();
    worker.fence = message.fence;
    if (!worker.in_loop) worker.seat = 0;
  }
  if (chance(faults_.halt_hangs)) {
    worker.suspicious = true;
    return;
  }
  say(worker, protocol::WorkerHalted{message.fence, worker.seat, worker.step, worker.has_state, worker.in_loop, ""},
      delay(50));
}

bool FakeWorld::all_train() {
  return !training_.empty() && std::all_of(training_.begin(), training_.end(), [this](WorkerId id) {
    const FakeWorker* worker = find(id);
    return worker != nullptr && worker->seat == training_generation_ && !worker->halted() && worker->has_state;
  });
}

// Training until now. The collective of the next step may have reached some members when a fault occurs.
void FakeWorld::advance() {
  if (!all_train()) return;
  step_ += 1 + pick(20);
  for (WorkerId id : training_) find(id)->step = step_;
  ahead_ = chance(0.4);
}

// The boundary: all members concerned have the commit.
void FakeWorld::try_swap(Generation generation) {
  if (!may_swap(plans_.at(generation))) return;
  at(now_ + delay(300), [this, generation] {
    const protocol::GenerationPlan& plan = plans_.at(generation);
    const bool starts = plan.previous == 0;  // also again, from nothing, while the program was about to end
    if ((!finishing_ || starts) && training_generation_ < generation && may_swap(plan)) swap(plan);
  });
}

bool FakeWorld::may_swap(const protocol::GenerationPlan& plan) {
  std::set<WorkerId> concerned;
  if (plan.previous != 0) concerned.insert(training_.begin(), training_.end());
  for (const auto& member : plan.members) concerned.insert(member.worker);
  const bool all_committed = std::all_of(concerned.begin(), concerned.end(), [&](WorkerId id) {
    const FakeWorker* worker = find(id);
    return worker != nullptr && worker->committed == plan.generation && worker->fence < plan.generation;
  });
  if (!all_committed || plan.previous == 0) return all_committed;
  if (!all_train()) at(now_ + Millis(100), [this, generation = plan.generation] { try_swap(generation); });
  return all_train();
}

void FakeWorld::swap(const protocol::GenerationPlan& plan) {
  if (plan.previous != training_generation_ && plan.previous != 0) {
    violation("a swap from a generation that does not train");
  }
  advance();
  ahead_ = false;
  if (plan.previous == 0) step_ = pick(static_cast<std::uint32_t>(step_) + 1);
  std::set<WorkerId> staying;
  for (const auto& member : plan.members) staying.insert(member.worker);
  for (WorkerId id : training_) {
    FakeWorker* worker = find(id);
    if (worker == nullptr || staying.contains(id) || plan.previous == 0) continue;
    worker->in_loop = false;
    say(*worker, protocol::WorkerLeft{plan.generation, step_}, delay(50));
    exit_worker(*worker, 0, 0, delay(200));
  }
  training_.clear();
  for (const auto& member : plan.members) training_.push_back(member.worker);
  training_generation_ = plan.generation;
  for (std::size_t rank = 0; rank < training_.size(); ++rank) take_seat(*find(training_[rank]), plan, rank, step_ + 1);
}

void FakeWorld::take_seat(FakeWorker& worker, const protocol::GenerationPlan& plan, std::size_t rank, Step first_step) {
  worker.seat = plan.generation;
  worker.in_loop = true;
  worker.step = first_step - 1;
  say(worker, protocol::WorkerActive{plan.generation, first_step, 0}, delay(50));
  if (!plan.members[rank].joiner && (plan.previous != 0 || rank == 0)) {
    worker.has_state = true;
    return;
  }
  worker.has_state = false;
  at(now_ + delay(100), [this, id = worker.id, generation = plan.generation] {
    FakeWorker* self = find(id);
    if (self == nullptr || self->seat != generation || self->halted()) return;
    self->has_state = true;
    try_finish();
  });
}

void FakeWorld::take_recovery_seat(WorkerId id, Generation generation) {
  FakeWorker* worker = find(id);
  if (worker == nullptr || worker->fence >= generation || worker->committed != generation) return;
  const protocol::GenerationPlan& plan = plans_.at(generation);
  if (training_generation_ != generation) {
    training_generation_ = generation;
    training_.clear();
    for (const auto& member : plan.members) training_.push_back(member.worker);
    step_ = plan.resume_step;
    ahead_ = false;
  }
  const auto rank = static_cast<std::size_t>(std::find(training_.begin(), training_.end(), id) - training_.begin());
  if (rank == training_.size()) {
    violation(to_string(id) + " has no seat in the recovery that it was asked to build");
    return;
  }
  if (!plan.members[rank].joiner && (!worker->has_state || worker->step != plan.resume_step)) {
    violation(to_string(id) + " goes on from step " + std::to_string(plan.resume_step) + " but stands at " +
              std::to_string(worker->step));
  }
  take_seat(*worker, plan, rank, plan.resume_step + 1);
  try_finish();
}

}  // namespace elastictrain::core
