#include "tests/simulation/worker_process.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "supervisor/protocol/limits.h"
#include "supervisor/protocol/names.h"
#include "tests/simulation/agent_process.h"
#include "tests/simulation/world.h"

namespace elastictrain::simulation {
namespace {

using namespace protocol;
using Machine = session::WorkerMachine;

constexpr Micros kHeldAfter{300'000};

}  // namespace

WorkerProcess::WorkerProcess(World& world, WorkerId id, AgentId agent, Host& host, std::vector<std::string> environment,
                             bool warm)
    : world_(world),
      id_(id),
      agent_(agent),
      host_(host),
      environment_(std::move(environment)),
      warm_(warm),
      machine_(id) {
  world_.homes[id] = &host;
}

WorkerProcess::~WorkerProcess() = default;

void WorkerProcess::deliver(std::function<void()> work) {
  if (paused_) {
    backlog_.push_back(std::move(work));
  } else {
    work();
  }
}

void WorkerProcess::begin() {
  born_ = place_since_ = last_received_ = world_.queue.now();
  progress_.sampler.seed = 7;
  if (world_.rng.chance(world_.fault_rates.crashes_at_start)) {
    world_.queue.after(world_.rng.time(Micros(1'000), world_.setup.program.start_max),
                       [this, life = std::weak_ptr(life_)] {
                         if (!life.expired()) die(3, 0);
                       });
  }
  if (world_.setup.full_devices && world_.agent(agent_)->shares_slot(id_)) {
    world_.queue.after(Micros(2'000), [this, life = std::weak_ptr(life_)] {
      if (!life.expired()) die(69, 0);
    });
  }
  never_ready_ = others_train() && world_.rng.chance(world_.fault_rates.never_ready);
  say(WorkerHello{limits::kProtocolVersion, id_, 1000, "simulated"});
  heartbeat();
  thread_ = live();
  thread_.start();
}

bool WorkerProcess::others_train() const {
  return world_.fault_rates.never_ready > 0 && std::any_of(world_.workers.begin(), world_.workers.end(),
                                                           [](const auto& entry) { return entry.second->trains(); });
}

// ---------------------------------------------------------------------------------------------------------------
// What comes from outside

void WorkerProcess::receive(const WorkerDown& message) {
  last_received_ = std::max(last_received_, world_.queue.now() + world_.rng.time(Micros(20), Micros(400)));
  world_.queue.at(last_received_, [this, message, life = std::weak_ptr(life_)] {
    if (!life.expired()) deliver([this, message] { hear(message); });
  });
}

void WorkerProcess::hear(const WorkerDown& message) {
  if (std::holds_alternative<Orphaned>(message)) {
    orphaned_ = true;
    poke();
  }
  if (std::holds_alternative<Dismiss>(message)) world_.oracle.dismissed(id_, machine_.in_loop());
  machine_.hear(message);
  carry_out();
}

void WorkerProcess::stop(Millis grace) {
  if (std::exchange(stopping_, true) && grace > Millis(0)) return;
  // A program without a signal handler ends at once; some clean up first.
  const auto delay = world_.rng.chance(0.8) ? Micros(500) : world_.rng.time(Micros(1'000), Micros(500'000));
  world_.queue.after(grace > Millis(0) ? std::min<Micros>(delay, grace) : Micros(100),
                     [this, life = std::weak_ptr(life_), kill = grace == Millis(0)] {
                       if (life.expired()) return;
                       if (kill) return die(0, SIGKILL);
                       deliver([this] { die(0, SIGTERM); });
                     });
  world_.queue.after(grace, [this, life = std::weak_ptr(life_)] {
    if (!life.expired()) die(0, SIGKILL);
  });
}

void WorkerProcess::notice() {
  deliver([this] {
    if (std::exchange(noticed_, true)) return die(0, SIGTERM);
    world_.log(id_, [] { return "gets TERM"; });
    notice_is_new_ = true;
  });
}

void WorkerProcess::die(int exit_code, int signal) {
  if (std::exchange(dead_, true)) return;
  world_.log(id_, [&] {
    return signal != 0 ? "dies by signal " + std::to_string(signal) : "exits with status " + std::to_string(exit_code);
  });
  life_ = std::make_shared<char>();
  wait_.forget();
  const bool in_order = exit_code == 0 && signal == 0;
  if (machine_.in_loop() && !in_order) world_.unreported.insert(id_);
  if (AgentProcess* agent = world_.agent(agent_)) agent->worker_exited(id_, exit_code, signal);
  world_.worker_ended(id_);
}

void WorkerProcess::pause() {
  world_.log(id_, [] { return "is stopped by a signal"; });
  world_.stalled = true;
  paused_ = true;
}

void WorkerProcess::resume() {
  if (!paused_) return;
  world_.log(id_, [] { return "goes on"; });
  paused_ = false;
  const std::weak_ptr<char> life = life_;
  while (!life.expired() && !backlog_.empty() && !paused_) {
    const auto work = std::move(backlog_.front());
    backlog_.pop_front();
    work();
  }
}

void WorkerProcess::hang() {
  world_.log(id_, [] { return "is caught in a loop without an end"; });
  world_.stalled = true;
  hung_ = true;
}

// ---------------------------------------------------------------------------------------------------------------
// Effects of the machine

void WorkerProcess::carry_out() {
  const auto effects = machine_.take_effects();
  if (machine_.place() != place_) {
    const auto spent = world_.queue.now() - place_since_;
    const bool busy = place_ != Machine::Place::kHalted && !hung_;
    if (busy) busy_us_ += static_cast<std::uint64_t>(spent.count());
    place_ = machine_.place();
    place_since_ = world_.queue.now();
  }
  for (const auto& effect : effects) std::visit([this](const auto& content) { perform(content); }, effect);
}

void WorkerProcess::perform(const Machine::StartBuild& effect) {
  const Generation generation = effect.plan.generation;
  plans_[generation] = effect.plan;
  const bool fails = world_.rng.chance(world_.fault_rates.build_fails);
  world_.plane.build(id_, effect.plan, fails,
                     [this, generation, life = std::weak_ptr(life_)](bool ok, const std::string& reason) {
                       if (life.expired()) return;
                       deliver([this, generation, ok, reason] {
                         if (ok) {
                           machine_.built(generation);
                         } else {
                           machine_.build_failed(generation, reason);
                         }
                         carry_out();
                       });
                     });
}

void WorkerProcess::perform(const Machine::DropBuild& effect) {
  const auto found = plans_.find(effect.generation);
  if (found != plans_.end()) world_.plane.abort(id_, found->second);
}

void WorkerProcess::perform(const Machine::AbortAssignment&) {
  const auto found = plans_.find(machine_.generation());
  if (found != plans_.end()) world_.plane.abort(id_, found->second);
}

void WorkerProcess::perform(const Machine::WakeTraining&) {
  poke();
}

void WorkerProcess::perform(const Machine::Say& effect) {
  if (const auto* prepared = std::get_if<WorkerPrepared>(&effect.message)) {
    world_.oracle.prepared(id_, prepared->generation);
  }
  if (const auto* halted = std::get_if<WorkerHalted>(&effect.message)) {
    const auto place = machine_.place();
    const bool settled = place != Machine::Place::kReducing && place != Machine::Place::kUpdating;
    world_.oracle.answers(id_, *halted, settled && !may_commit_, progress_.committed_step);
    world_.log(id_, [&] {
      return "says halted " + std::to_string(halted->fence) + " in " + std::to_string(halted->generation) +
             " at step " + std::to_string(halted->committed_step) + (halted->has_state ? " with" : " without") +
             " state" + (halted->in_loop ? "" : ", starting") + (halted->reason.empty() ? "" : ": " + halted->reason);
    });
  }
  say(effect.message);
}

void WorkerProcess::say(WorkerToAgent message) {
  if (AgentProcess* agent = world_.agent(agent_)) agent->on_worker_message(id_, std::move(message));
}

std::uint64_t WorkerProcess::cpu_ms() const {
  const bool busy = !paused_ && !hung_ && place_ != Machine::Place::kHalted && place_ != Machine::Place::kStarting;
  const auto now = busy ? world_.queue.now() - place_since_ : Instant::duration{0};
  return (busy_us_ + static_cast<std::uint64_t>(now.count())) / 1'000;
}

void WorkerProcess::heartbeat() {
  deliver([this] {
    WorkerHeartbeat beat;
    beat.sequence = ++heartbeats_;
    beat.generation = machine_.generation();
    beat.step = progress_.committed_step;
    beat.epoch = progress_.sampler.epoch;
    beat.steps = std::exchange(steps_since_heartbeat_, 0);
    if (beat.steps != 0) {
      beat.mean.step_us = static_cast<double>(step_time_.count());
      beat.mean.compute_us = beat.mean.step_us / 2;
      beat.samples_per_s = 100;
      beat.loss = 1;
    }
    if (world_.setup.full_devices && progress_.committed_step != 0) beat.device = {.total_bytes = 80, .free_bytes = 30};
    beat.place = machine_.place();
    beat.place_ms = static_cast<std::uint64_t>((world_.queue.now() - place_since_).count() / 1'000);
    if (late_since_ && says_held_ && world_.queue.now() - *late_since_ > kHeldAfter) {
      machine_.device_is_held("the device works for what was ended");
      carry_out();
    }
    if (std::exchange(notice_is_new_, false)) say(WorkerNote{std::string(kTermNote), "from process 4711"});
    say(beat);
    send_audits();
  });
  world_.queue.after(world_.setup.heartbeat, [this, life = std::weak_ptr(life_)] {
    if (!life.expired()) heartbeat();
  });
}

}  // namespace elastictrain::simulation
