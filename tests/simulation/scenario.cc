#include "tests/simulation/life.h"

#include <algorithm>
#include <csignal>
#include <sstream>
#include <string_view>
#include <utility>

#include "supervisor/journal_replay.h"
#include "tests/simulation/agent_process.h"
#include "tests/simulation/supervisor_process.h"
#include "tests/simulation/worker_process.h"

namespace elastictrain::simulation {
namespace {

constexpr Millis kLongest{1'800'000};  // virtual time from the last fault to the end of the run

}  // namespace

Life::Life(std::uint64_t seed, std::size_t story_lines)
    : dice_(seed ^ 0x51f0a17e5eedULL),
      notices_(seed ^ 0x7e2a5eedULL),
      world_(std::make_unique<World>(seed, make_setup(), story_lines)) {
  make_hosts();
}

Life::~Life() = default;

// ---------------------------------------------------------------------------------------------------------------
// The set-up

Setup Life::make_setup() {
  Setup setup;
  core::RunSettings& settings = setup.settings;
  settings.run_name = "simulated";
  settings.min_workers = dice_.between(1, 3);
  settings.start_workers = settings.min_workers + dice_.below(3);
  settings.max_workers = settings.start_workers + dice_.below(3);
  settings.spares = dice_.below(4) == 0 ? 1 : 0;
  settings.batch.per_worker = dice_.between(1, 6);
  settings.failures = make_failures();
  settings.hosts_may_appear = true;
  settings.start_timeout = Millis(60'000);
  settings.ready_timeout = Millis(10'000);
  settings.prepare_timeout = Millis(dice_.between(1'000, 8'000));
  settings.grace = Millis(dice_.between(500, 6'000));
  settings.resume_timeout = Millis(dice_.between(1'000, 6'000));
  setup.program = make_program();
  settings.has_checkpoints = setup.program.checkpoint_every != 0;
  setup.orphan_grace = Millis(dice_.chance(0.3) ? dice_.between(2'000, 10'000) : 60'000);
  return setup;
}

core::FailureSettings Life::make_failures() {
  core::FailureSettings failures;
  failures.on_failure = dice_.chance(0.85) ? core::OnFailure::kReplace : core::OnFailure::kShrink;
  failures.max_crashes = failures.max_hangs = failures.max_infrastructure = failures.max_fruitless = core::kUnlimited;
  below_min_ends_ = dice_.chance(0.1);
  failures.wait_for_min = Millis(below_min_ends_ ? dice_.between(500, 5'000) : 900'000);
  failures.halt_timeout = Millis(dice_.between(1'000, 6'000));
  failures.reconnect_grace = Millis(dice_.between(50, 500));
  failures.relaunch = Millis(dice_.between(100, 2'000));
  failures.cool_down = Millis(dice_.between(100, 3'000));
  failures.cool_down_max = Millis(10'000);
  failures.detect_hangs = dice_.chance(0.5);
  failures.hang_max = Millis(20'000);
  return failures;
}

Program Life::make_program() {
  Program program;
  program.samples = dice_.between(20, 900);
  program.epochs = dice_.between(1, 3);
  if (dice_.chance(0.1)) program.max_steps = dice_.between(5, 120);
  program.buckets = dice_.between(1, 3);
  program.start_most = Micros(dice_.between(30'000, 1'500'000));
  program.compute_least = Micros(dice_.between(1'000, 60'000));
  program.compute_most = program.compute_least + Micros(dice_.between(0, 40'000));
  program.update = Micros(dice_.between(50, 20'000));
  program.evaluation = dice_.chance(0.3) ? Micros(dice_.between(10'000, 900'000)) : Micros(0);
  program.checkpoint_every = dice_.chance(0.6) ? dice_.between(1, 12) : 0;
  program.audit_every = dice_.chance(0.8) ? dice_.between(1, 5) : 0;
  return program;
}

void Life::make_hosts() {
  const core::RunSettings& settings = world_->setup.settings;
  std::uint32_t slots = 0;
  const std::uint32_t idle = dice_.chance(0.2) ? settings.start_workers : 0;
  while (slots < settings.max_workers + settings.spares + idle || world_->hosts.size() < 2) {
    auto host = std::make_unique<Host>();
    host->name = std::string(1, static_cast<char>('A' + world_->hosts.size()));
    host->slots = dice_.between(1, 3);
    host->local = dice_.chance(0.3);
    slots += host->slots;
    world_->hosts.push_back(std::move(host));
  }
}

// ---------------------------------------------------------------------------------------------------------------
// Faults

void Life::later(Micros least, Micros most, std::function<void()> work) {
  world_->queue.after(dice_.time(least, most), std::move(work));
}

void Life::schedule_faults() {
  const std::uint32_t number = dice_.below(4) == 0 ? 0 : dice_.between(1, 14);
  const auto horizon = Micros(dice_.between(1'000'000, 25'000'000));
  calm_ = world_->queue.now() + horizon;
  if (dice_.chance(0.3)) {
    crashed_by_itself_ = true;
    world_->luck = {.launch_fails = 0.1, .spawn_fails = 0.05, .build_fails = 0.1, .crashes_at_start = 0.1};
  }
  if (dice_.chance(0.4)) strike_in_ = dice_.between(1, 60);
  strikes_new_starts_ = dice_.chance(0.3);
  crashes_at_the_end_ = dice_.chance(0.2);
  if (dice_.chance(0.2)) {
    strikes_new_starts_ = true;
    later(Micros(0), horizon, [this] { strand(); });
  }
  if (notices_.chance(0.2)) {
    world_->queue.after(notices_.time(Micros(0), horizon), [this] {
      if (!healed_ && !world_->exit_status) notice_workers();
    });
  }
  for (std::uint32_t i = 0; i < number; ++i) {
    // Faults are correlated: some occur within moments of each other.
    const Micros when = dice_.time(Micros(0), horizon);
    const std::uint32_t together = dice_.chance(0.25) ? 2 : 1;
    for (std::uint32_t n = 0; n < together; ++n) {
      world_->queue.after(when + Micros(n * dice_.below(60'000)), [this] {
        if (!healed_ && !world_->exit_status) fault();
      });
    }
  }
}

void Life::fault() {
  ++faults_;
  switch (dice_.below(10)) {
    case 0:
    case 1:
    case 2:
      return hurt_worker();
    case 3:
      return hurt_agent();
    case 4:
      return hurt_host();
    case 5:
    case 6:
      return hurt_wires();
    case 7:
      return hurt_supervisor();
    default:
      return wish();
  }
}

WorkerProcess* Life::any_worker() {
  if (world_->workers.empty()) return nullptr;
  auto found = world_->workers.begin();
  std::advance(found, dice_.below(static_cast<std::uint32_t>(world_->workers.size())));
  return found->second.get();
}

AgentProcess* Life::any_agent() {
  if (world_->agents.empty()) return nullptr;
  auto found = world_->agents.begin();
  std::advance(found, dice_.below(static_cast<std::uint32_t>(world_->agents.size())));
  return found->second.get();
}

// Some members have the sum already, others never get it.
void Life::strike(const std::vector<WorkerId>& members) {
  if (strike_in_ == 0 || --strike_in_ != 0 || healed_) return;
  if (dice_.chance(0.5)) strike_in_ = dice_.between(1, 60);
  const std::uint32_t victims = members.size() > 2 && dice_.chance(0.3) ? 2 : 1;
  for (std::uint32_t n = 0; n < victims; ++n) {
    const WorkerId id = members[dice_.below(static_cast<std::uint32_t>(members.size()))];
    later(Micros(0), Micros(2'000), [this, id] {
      if (WorkerProcess* worker = world_->worker(id)) worker->die(0, SIGKILL);
    });
  }
}

// The training workers cannot be reached by the supervisor. They train on and write checkpoints, while the run starts
// again elsewhere.
void Life::strand() {
  if (healed_) return;
  for (const auto& host : world_->hosts) {
    const bool trains = std::any_of(world_->workers.begin(), world_->workers.end(), [&](const auto& entry) {
      return &entry.second->host() == host.get() && entry.second->trains();
    });
    if (!trains) continue;
    host->cut_up = host->cut_down = true;
    world_->say(host->name, [] { return "is out of the supervisor's reach, with all who train"; });
    later(Micros(5'000'000), Micros(20'000'000), [this, &host = *host] { heal_host(host); });
  }
}

// The run has started again from a checkpoint and has not yet written one.
void Life::strike_new_start(const std::vector<WorkerId>& members) {
  if (healed_ || !std::exchange(strikes_new_starts_, false)) return;
  later(Micros(0), Micros(200'000), [this, members] {
    for (const WorkerId id : members) {
      if (WorkerProcess* worker = world_->worker(id)) worker->die(0, SIGKILL);
    }
  });
}

void Life::crash_at_the_end() {
  if (!std::exchange(crashes_at_the_end_, false) || world_->disk.misses_records()) return;
  later(Micros(0), Micros(20'000), [this] {
    if (!world_->exit_status) world_->supervisor->crash();
  });
}

void Life::hurt_worker() {
  if (dice_.chance(0.5)) {
    strike_in_ = dice_.between(1, 6);
    return;
  }
  WorkerProcess* worker = any_worker();
  if (worker == nullptr) return;
  const WorkerId id = worker->id();
  const bool hangs_are_found = world_->setup.settings.failures.detect_hangs;
  switch (dice_.below(6)) {
    case 0:
      crashed_by_itself_ = true;
      return worker->die(static_cast<int>(dice_.between(1, 3)), 0);
    case 1:
      worker->pause();
      if (hangs_are_found && dice_.chance(0.5)) return;
      return later(Micros(10'000), Micros(5'000'000), [this, id] {
        if (WorkerProcess* same = world_->worker(id)) same->resume();
        world_->look_again();
      });
    case 2:
      if (hangs_are_found) return worker->hang();
      crashed_by_itself_ = true;
      return worker->die(0, SIGSEGV);
    case 3:
      return later(Micros(0), Micros(200), [this, id] {
        if (WorkerProcess* same = world_->worker(id)) same->die(0, SIGKILL);
      });
    default:
      return worker->die(0, SIGKILL);
  }
}

// TERM to one worker; or to all, as from a batch system that ends a job, or from a user who signals only the workers.
void Life::notice_workers() {
  if (dice_.chance(0.6)) {
    if (WorkerProcess* worker = any_worker()) worker->notice();
    return;
  }
  std::vector<WorkerId> workers;
  for (const auto& [id, worker] : world_->workers) workers.push_back(id);
  for (const WorkerId id : workers) {
    later(Micros(0), Micros(300'000), [this, id] {
      if (WorkerProcess* worker = world_->worker(id)) worker->notice();
    });
  }
  SupervisorProcess& supervisor = *world_->supervisor;
  if (supervisor.crashed() || dice_.chance(0.8)) return;
  stop_asked_ = true;
  supervisor.ask(core::Stop{supervisor.next_request(), core::StopCause::kPreempted});
}

void Life::hurt_agent() {
  AgentProcess* agent = any_agent();
  if (agent == nullptr) return;
  const AgentId id = agent->id();
  switch (dice_.below(4)) {
    case 0:
      world_->say(id, [] { return "is stopped by a signal"; });
      agent->pause();
      return later(Micros(10'000), Micros(6'000'000), [this, id] {
        if (AgentProcess* same = world_->agent(id)) same->resume();
      });
    case 1:
      agent->host().away = true;
      return agent->notice();
    default:
      return agent->kill();
  }
}

void Life::heal_host(Host& host) {
  if (!host.on) world_->say(host.name, [] { return "has power again"; });
  if (host.cut_up || host.cut_down || host.cut_data) world_->say(host.name, [] { return "is healed"; });
  host.on = true;
  host.offered = true;
  host.cut_up = host.cut_down = host.cut_data = false;
  host.slowness = 1;
  world_->look_again();
}

void Life::hurt_host() {
  Host& host = any_host();
  switch (dice_.below(4)) {
    case 0:
      world_->power_off(host);
      break;
    case 1:
      world_->say(host.name, [] { return "is slow from now on"; });
      host.slowness = dice_.between(2, 6);
      break;
    case 2:
      world_->say(host.name, [] { return "vanishes from the list"; });
      host.offered = false;
      if (world_->supervisor && !world_->supervisor->crashed()) world_->supervisor->offer_hosts();
      break;
    default:
      for (const auto& each : world_->hosts) {
        if (dice_.chance(0.7)) world_->power_off(*each);
      }
      break;
  }
  later(Micros(100'000), Micros(12'000'000), [this, &host] {
    if (healed_) return;
    for (const auto& each : world_->hosts) {
      if (each.get() == &host || !each->on) heal_host(*each);
    }
    if (world_->supervisor && !world_->supervisor->crashed()) world_->supervisor->offer_hosts();
  });
}

void Life::hurt_wires() {
  Host& host = any_host();
  if (dice_.chance(0.4)) {
    if (AgentProcess* agent = any_agent()) agent->break_connection();
    return;
  }
  const std::uint32_t kind = dice_.below(5);
  host.cut_up = kind != 1 && kind != 2;
  host.cut_down = kind != 0 && kind != 2;
  host.cut_data = kind >= 2;
  world_->say(host.name, [&] {
    return std::string("is cut off:") + (host.cut_up ? " up" : "") + (host.cut_down ? " down" : "") +
           (host.cut_data ? " data" : "");
  });
  later(Micros(20'000), Micros(9'000'000), [this, &host] {
    if (host.cut_up || host.cut_down || host.cut_data) heal_host(host);
  });
}

void Life::hurt_supervisor() {
  SupervisorProcess& supervisor = *world_->supervisor;
  // Records that did not fit on a full disk are lost with the process that held them; nothing is guaranteed for them.
  if (supervisor.crashed() || world_->disk.misses_records()) return;
  if (dice_.chance(0.15)) {
    world_->say("disk", [] { return "is full"; });
    world_->disk.full = true;
    return later(Micros(100'000), Micros(5'000'000), [this] { world_->disk.full = false; });
  }
  if (dice_.chance(0.5)) {
    supervisor.crash_amid_actions(dice_.below(12));
  } else {
    supervisor.crash();
  }
}

void Life::resume_supervisor() {
  if (world_->exit_status || !world_->supervisor->crashed()) return;
  JournalReplay replay;
  std::istringstream lines(world_->disk.journal_text());
  for (std::string line; std::getline(lines, line);) replay.take(line);
  core::Resumed resumed = replay.result();
  resumed.audits = world_->disk.audits;
  world_->say("supervisor", [&] {
    return "is started again: generation " + std::to_string(resumed.generation) + ", numbers used up to " +
           std::to_string(resumed.issued) + ", " + std::to_string(resumed.workers.size()) + " workers" +
           (resumed.unsettled ? ", unsettled" : "");
  });
  world_->truth.forget_requests();
  world_->supervisor = std::make_unique<SupervisorProcess>(*world_);
  world_->supervisor->take_over(resumed);
}

void Life::wish() {
  SupervisorProcess& supervisor = *world_->supervisor;
  if (supervisor.crashed()) return;
  const core::RunSettings& settings = world_->setup.settings;
  const std::uint64_t request = supervisor.next_request();
  switch (dice_.below(8)) {
    case 0:
    case 1:
    case 2:
      return supervisor.ask(core::Resize{request, dice_.between(1, settings.max_workers + 1), ""});
    case 3:
    case 4:
      return supervisor.ask(core::ReplaceWorker{request, dice_.below(settings.max_workers)});
    case 5:
      return supervisor.ask(core::ReplaceHost{request, any_host().name});
    case 6: {
      Host& host = any_host();
      host.away = true;
      return supervisor.ask(core::DrainHost{request, host.name});
    }
    default:
      if (!dice_.chance(0.3)) return;
      stop_asked_ = true;
      return supervisor.ask(
          core::Stop{request, dice_.chance(0.5) ? core::StopCause::kUser : core::StopCause::kPreempted});
  }
}

// ---------------------------------------------------------------------------------------------------------------
// The end

void Life::heal_all() {
  healed_ = true;
  world_->say("world", [] { return "everything is healed"; });
  world_->luck = {};
  world_->disk.full = false;
  world_->supervisor->crash_amid_actions(std::nullopt);
  if (world_->supervisor->crashed()) resume_supervisor();
  for (const auto& host : world_->hosts) heal_host(*host);
  std::vector<AgentId> agents;
  for (const auto& [id, agent] : world_->agents) agents.push_back(id);
  for (const AgentId id : agents) {
    if (AgentProcess* agent = world_->agent(id)) agent->resume();
  }
  std::vector<WorkerId> workers;
  for (const auto& [id, worker] : world_->workers) workers.push_back(id);
  for (const WorkerId id : workers) {
    if (WorkerProcess* worker = world_->worker(id)) worker->resume();
  }
  world_->look_again();
  offer_drained_hosts_anew();
}

// A host that was drained, or gave notice, returns as a new one once it has been off the list.
void Life::offer_drained_hosts_anew() {
  for (const auto& host : world_->hosts) host->offered = !host->away;
  if (!world_->exit_status) world_->supervisor->offer_hosts();
  later(Micros(8'000'000), Micros(12'000'000), [this] {
    for (const auto& host : world_->hosts) host->offered = true;
    if (!world_->exit_status) world_->supervisor->offer_hosts();
  });
}

void Life::live() {
  world_->supervisor = std::make_unique<SupervisorProcess>(*world_);
  world_->on_supervisor_crash = [this] { later(Micros(50'000), Micros(4'000'000), [this] { resume_supervisor(); }); };
  world_->plane.on_finish = [this](const std::vector<WorkerId>& members) { strike(members); };
  world_->on_start_from_checkpoint = [this](const std::vector<WorkerId>& members) { strike_new_start(members); };
  world_->on_end_near = [this] { crash_at_the_end(); };
  world_->supervisor->begin();
  schedule_faults();
  world_->run_until(calm_);
  if (!violation() && !world_->over()) {
    heal_all();
    world_->run_until(world_->queue.now() + kLongest);
  }
  check_end();
}

void Life::check_end() {
  if (violation()) return;
  if (!world_->exit_status) {
    return world_->violated("liveness", "the run has not ended " + std::to_string(kLongest.count() / 1000) +
                                            " s after the last fault, at step " +
                                            std::to_string(world_->truth.surviving_steps()));
  }
  if (!world_->over()) {
    return world_->violated("nothing_left_behind", std::to_string(world_->agents.size()) + " agents and " +
                                                       std::to_string(world_->workers.size()) +
                                                       " workers outlive the run");
  }
  if (!status_is_explained()) {
    return world_->violated("end_is_explained", "the run ended with status " + std::to_string(*world_->exit_status) +
                                                    ": " + world_->exit_reason);
  }
  const Program& program = world_->setup.program;
  if (*world_->exit_status == 0 && !stop_asked_) world_->truth.check_complete(program.epochs, program.max_steps);
  world_->truth.check_all_answered();
  if (*world_->exit_status != 0 || program.audit_every == 0) return;
  world_->truth.check_ledger_repeats_nothing();
  if (!world_->accounts_lost && world_->untold.empty()) world_->truth.check_ledger_agrees(program.epochs);
}

bool Life::status_is_explained() const {
  const int status = *world_->exit_status;
  const bool trained = world_->truth.surviving_steps() > 0;
  if (status == 0) return world_->finished || stop_asked_;
  if (stop_asked_) return true;
  if (!trained) return true;  // a failure at the start ends the run
  if (below_min_ends_ && (status == 69 || status == 75)) return true;
  return crashed_by_itself_ && ((status >= 1 && status <= 3) || status == 128 + SIGSEGV);
}

}  // namespace elastictrain::simulation
