// Purpose: one simulated run from start to end: draws a set-up, a program and a schedule of faults and requests, runs
// the world, heals all faults, and reports whether the run ended in a way that its settings explain. Thread: one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/simulation/world.h"

namespace elastictrain::simulation {

class Life {
 public:
  Life(std::uint64_t seed, std::size_t story_lines);
  ~Life();

  void live();

  const std::optional<Truth::Violation>& violation() const { return world_->truth.violation(); }
  const World& world() const { return *world_; }
  std::uint64_t faults() const { return faults_; }

 private:
  Setup make_setup();
  core::FailureSettings make_failures();
  Program make_program();
  void make_hosts();
  void schedule_faults();
  void fault();
  void hurt_worker();
  void notice_workers();
  void strike(const std::vector<WorkerId>& members);
  void strand();
  void strike_new_start(const std::vector<WorkerId>& members);
  void crash_at_the_end();
  void hurt_agent();
  void hurt_host();
  void hurt_wires();
  void hurt_supervisor();
  void wish();
  void resume_supervisor();
  void heal_host(Host& host);
  void heal_all();
  void offer_drained_hosts_anew();
  void check_end();
  bool status_is_explained() const;
  WorkerProcess* any_worker();
  AgentProcess* any_agent();
  Host& any_host() { return *dice_.one_of(world_->hosts); }
  void later(Micros least, Micros most, std::function<void()> work);

  Dice dice_;
  Dice notices_;                 // a separate source, so that runs without a notice do not depend on it
  bool below_min_ends_ = false;  // wait_for_min is short
  std::unique_ptr<World> world_;
  std::uint64_t faults_ = 0;
  Instant calm_;                 // no fault after it
  std::uint32_t strike_in_ = 0;  // collectives until one is struck while it ends
  bool strikes_new_starts_ = false;
  bool crashes_at_the_end_ = false;
  bool healed_ = false;
  bool stop_asked_ = false;
  bool crashed_by_itself_ = false;
};

}  // namespace elastictrain::simulation
