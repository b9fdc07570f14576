#include "tests/simulation/scenario.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "supervisor/core/pure/failure_budget.h"
#include "supervisor/core/pure/settings.h"
#include "tests/simulation/agent_process.h"
#include "tests/simulation/supervisor_process.h"
#include "tests/simulation/worker_process.h"

namespace elastictrain::simulation {
namespace {

constexpr Millis kLongest{1'800'000};  // virtual time from the last fault to the end of the run

}  // namespace

Scenario::Scenario(std::uint64_t seed, std::size_t trace_lines)
    : rng_(seed ^ 0x51f0a17e5eedULL),
      notices_(seed ^ 0x7e2a5eedULL),
      targets_(seed ^ 0x3a96e7f1ULL),
      leases_(seed ^ 0x1ea5e5ULL),
      undrains_(seed ^ 0xd4a1f5ULL),
      power_(seed ^ 0x90e3c07ULL),
      budgets_(seed ^ 0xb0d9e75ULL),
      warm_(seed ^ 0x3a2b1c5ULL),
      keeps_first_(seed % 2 == 0),
      waits_for_all_(seed % 3 == 0),
      kills_for_memory_(seed % 4 == 1),
      full_devices_(seed % 5 == 2),
      world_(std::make_unique<World>(seed, make_setup(), trace_lines)) {
  make_hosts();
}

Scenario::~Scenario() = default;

Setup Scenario::make_setup() {
  Setup setup;
  core::RunSettings& settings = setup.settings;
  settings.run_name = "simulated";
  settings.min_workers = rng_.between(1, 3);
  settings.start_workers = settings.min_workers + rng_.below(3);
  settings.max_workers = settings.start_workers + rng_.below(3);
  settings.spares = rng_.below(4) == 0 ? 1 : 0;
  settings.batch.per_worker = rng_.between(1, 6);
  settings.failures = make_failures();
  settings.hosts_may_appear = true;
  settings.policy_sizes = settings.batch.per_worker % 2 == 0;
  settings.start_timeout = Millis(60'000);
  settings.ready_timeout = Millis(10'000);
  settings.prepare_timeout = Millis(rng_.between(1'000, 8'000));
  settings.grace = Millis(rng_.between(500, 6'000));
  settings.resume_timeout = Millis(rng_.between(1'000, 6'000));
  setup.program = make_program();
  settings.has_checkpoints = setup.program.checkpoint_every != 0;
  settings.keeps_first = keeps_first_;
  if (waits_for_all_) settings.last_call = Millis(5'000);
  setup.kills_for_memory = kills_for_memory_;
  setup.full_devices = full_devices_;
  setup.orphan_grace = Millis(rng_.chance(0.3) ? rng_.between(2'000, 10'000) : 60'000);
  draw_target_settings(setup);
  settings.leased = leases_.chance(0.25);
  settings.keeps_warm = warm_.chance(0.4);
  if (!has_target_ && budgets_.chance(0.2)) limit_budgets(settings.failures);
  return setup;
}

void Scenario::limit_budgets(core::FailureSettings& failures) {
  limited_ = true;
  failures.max_crashes = budgets_.below(4);
  failures.max_hangs = budgets_.below(3);
  failures.max_infrastructure = budgets_.between(1, 6);
  failures.max_fruitless = budgets_.between(1, 4);
}

core::FailureSettings Scenario::make_failures() {
  core::FailureSettings failures;
  failures.on_failure = rng_.chance(0.85) ? core::OnFailure::kReplace : core::OnFailure::kShrink;
  failures.max_crashes = failures.max_hangs = failures.max_infrastructure = failures.max_fruitless = core::kUnlimited;
  below_min_ends_ = rng_.chance(0.1);
  failures.wait_for_min = Millis(below_min_ends_ ? rng_.between(500, 5'000) : 900'000);
  failures.halt_timeout = Millis(rng_.between(1'000, 6'000));
  failures.reconnect_grace = Millis(rng_.between(50, 500));
  failures.relaunch = Millis(rng_.between(100, 2'000));
  failures.cool_down = Millis(rng_.between(100, 3'000));
  failures.cool_down_max = Millis(10'000);
  failures.detect_hangs = rng_.chance(0.5);
  failures.hang_max = Millis(20'000);
  return failures;
}

Program Scenario::make_program() {
  Program program;
  program.samples = rng_.between(20, 900);
  program.epochs = rng_.between(1, 3);
  if (rng_.chance(0.1)) program.max_steps = rng_.between(5, 120);
  program.buckets = rng_.between(1, 3);
  program.start_max = Micros(rng_.between(30'000, 1'500'000));
  program.compute_min = Micros(rng_.between(1'000, 60'000));
  program.compute_max = program.compute_min + Micros(rng_.between(0, 40'000));
  program.update = Micros(rng_.between(50, 20'000));
  program.evaluation = rng_.chance(0.3) ? Micros(rng_.between(10'000, 900'000)) : Micros(0);
  program.checkpoint_every = rng_.chance(0.6) ? rng_.between(1, 12) : 0;
  program.audit_every = rng_.chance(0.8) ? rng_.between(1, 5) : 0;
  return program;
}

void Scenario::make_hosts() {
  const core::RunSettings& settings = world_->setup.settings;
  std::uint32_t slots = 0;
  const std::uint32_t idle = rng_.chance(0.2) ? settings.start_workers : 0;
  while (slots < settings.max_workers + settings.spares + idle || world_->hosts.size() < 2) {
    auto host = std::make_unique<Host>();
    host->name = std::string(1, static_cast<char>('A' + world_->hosts.size()));
    host->slots = rng_.between(1, 3);
    host->local = rng_.chance(0.3);
    slots += host->slots;
    slots_.push_back(host->slots);
    for (std::uint32_t slot = 0; slot < host->slots; ++slot) host->leased.push_back(slot);
    world_->hosts.push_back(std::move(host));
  }
}

void Scenario::run() {
  world_->supervisor = std::make_unique<SupervisorProcess>(*world_);
  world_->on_supervisor_crash = [this] { supervisor_lost(); };
  world_->plane.on_finish = [this](const std::vector<WorkerId>& members) { kill_in_collective(members); };
  world_->on_start_from_checkpoint = [this](const std::vector<WorkerId>& members) { kill_new_start(members); };
  world_->on_end_near = [this] { kill_supervisor_at_the_end(); };
  world_->supervisor->begin();
  schedule_faults();
  world_->run_until(calm_);
  if (!violation() && !world_->over()) {
    heal_all();
    if (has_target_) reach_target();
    world_->run_until(world_->queue.now() + kLongest);
  }
  check_end();
}

void Scenario::check_end() {
  if (violation()) return;
  if (!world_->exit_status) {
    return world_->violated("liveness", "the run has not ended " + std::to_string(kLongest.count() / 1000) +
                                            " s after the last fault, at step " +
                                            std::to_string(world_->oracle.surviving_steps()));
  }
  if (!world_->over()) {
    return world_->violated("nothing_left_behind", std::to_string(world_->agents.size()) + " agents and " +
                                                       std::to_string(world_->workers.size()) +
                                                       " workers outlive the run");
  }
  if (expected_status_ ? status() != *expected_status_ : !status_is_explained()) {
    return world_->violated("end_is_explained", "the run ended with status " + std::to_string(*world_->exit_status) +
                                                    ": " + world_->exit_reason);
  }
  const Program& program = world_->setup.program;
  if (status() == 0 && !stop_requested_) world_->oracle.check_complete(program.epochs, program.max_steps);
  world_->oracle.check_all_answered();
  if (status() != 0 || program.audit_every == 0) return;
  world_->oracle.check_ledger_repeats_nothing();
  if (!accounts_may_be_lost()) world_->oracle.check_ledger_agrees();
}

bool Scenario::accounts_may_be_lost() const {
  return world_->audits_lost || !world_->unreported.empty();
}

// Training has ended as it should, also where the audit lacks an account that was lost with a machine.
int Scenario::status() const {
  const bool lacks_account = *world_->exit_status == core::kStatusAuditFailed && accounts_may_be_lost();
  return lacks_account ? 0 : *world_->exit_status;
}

// Its reason names the limit, but for a single crash that none is allowed for.
bool Scenario::ends_by_budget() const {
  if (world_->exit_reason.find("failures.max_") != std::string::npos) return true;
  return world_->setup.settings.failures.max_crashes == 0 && status() != core::kStatusUnavailable;
}

// By a notice or a drain; hosts that were lost before may not be counted on.
bool Scenario::hosts_go_away() const {
  return std::ranges::any_of(world_->hosts, [](const auto& host) { return host->away; });
}

bool Scenario::status_is_explained() const {
  const int status = this->status();
  const bool trained = world_->oracle.surviving_steps() > 0 && !start_forgotten_;
  if (status == 0) return world_->finished || stop_requested_;
  if (stop_requested_) return true;
  if (!trained) return true;  // a failure at the start ends the run
  if (limited_ && !world_->undisturbed && ends_by_budget()) return true;
  const core::RunSettings& settings = world_->setup.settings;
  if (settings.leased && settings.has_checkpoints && status == 75) return true;  // suspended
  if (below_min_ends_ && (status == 69 || status == 75)) return true;
  if (settings.has_checkpoints && status == 75 && hosts_go_away()) return true;
  return crashed_by_itself_ && ((status >= 1 && status <= 3) || status == 128 + SIGSEGV);
}

}  // namespace elastictrain::simulation
