// Purpose: one simulated run from start to end: draws a set-up, a program and a schedule of faults and requests, runs
// the world, heals all faults, and reports whether the run ended in a way that its settings explain. Some runs have a
// program without an end: after the last fault they must reach a requested size and keep it until they are told to end.
// Thread: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/simulation/world.h"

namespace elastictrain::simulation {

class Scenario {
 public:
  Scenario(std::uint64_t seed, std::size_t trace_lines);
  ~Scenario();

  void run();

  const std::optional<Oracle::Violation>& violation() const { return world_->oracle.violation(); }
  const World& world() const { return *world_; }
  std::uint64_t faults() const { return faults_; }

 private:
  // The set-up (scenario.cc).
  Setup make_setup();
  core::FailureSettings make_failures();
  void limit_budgets(core::FailureSettings& failures);
  Program make_program();
  void make_hosts();

  // Faults and requests (faults.cc).
  void schedule_faults();
  void fault();
  void lease_fault();
  void draw_lease(std::uint32_t at_least);
  void worker_fault();
  void agent_fault();
  void host_fault();
  void link_fault();
  void supervisor_fault();
  void supervisor_lost();
  void cut_supervisors_power();
  void request();
  void kill_in_collective(const std::vector<WorkerId>& members);
  void kill_new_start(const std::vector<WorkerId>& members);
  void kill_supervisor_at_the_end();
  void cut_off_members();
  void notice_workers();
  WorkerProcess* any_worker();
  AgentProcess* any_agent();
  Host& any_host() { return *rng_.one_of(world_->hosts); }
  void later(Micros min, Micros max, std::function<void()> work);

  // After the last fault (healing.cc).
  void resume_supervisor();
  void heal_host(Host& host);
  void heal_all();
  void offer_drained_hosts_anew();

  // A requested size (target.cc).
  void draw_target_settings(Setup& setup);
  void reach_target();
  void run_until_target(const std::string& after);
  void check_warm(const std::string& after);
  void shrink_and_grow();
  void ask_again_after_hidden_loss();
  std::string away_from_target() const;
  void check_lease();
  void check_notice();
  void end_by_request();
  bool kill_one_of_many();
  bool over() const { return violation() || world_->exit_status; }

  void check_end();
  bool status_is_explained() const;
  bool hosts_go_away() const;
  bool ends_by_budget() const;
  bool accounts_may_be_lost() const;
  int status() const;

  Rng rng_;
  Rng notices_;  // separate sources, so that runs without a notice or a target do not depend on them
  Rng targets_;
  Rng leases_;
  Rng undrains_;
  Rng power_;
  Rng budgets_;
  Rng warm_;
  bool keeps_first_;
  bool waits_for_all_;
  bool kills_for_memory_;
  bool full_devices_;
  bool has_target_ = false;      // the program does not end by itself
  bool below_min_ends_ = false;  // wait_for_min is short
  bool limited_ = false;         // few losses end the run
  std::unique_ptr<World> world_;
  std::vector<std::uint32_t> slots_;  // of the hosts, as drawn
  std::uint64_t faults_ = 0;
  Instant calm_;                 // no fault after it
  std::uint32_t strike_in_ = 0;  // collectives until one is struck while it ends
  bool strikes_new_starts_ = false;
  bool kills_supervisor_at_the_end_ = false;
  bool healed_ = false;
  bool stop_requested_ = false;
  bool start_forgotten_ = false;  // no record and no worker shows that the run has trained
  bool crashed_by_itself_ = false;
  std::uint32_t target_ = 0;  // 0: none yet
  std::ptrdiff_t hidden_losses_ = 0;
  std::optional<int> expected_status_;
};

}  // namespace elastictrain::simulation
