// Random runs in a fake world: every seed must keep the invariants, answer every request once, reach the target once
// requests and faults stop, and end with the right status. A failing seed prints its trace.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "supervisor/core/transitions.h"
#include "tests/unit/core/fake_world.h"

using namespace elastictrain;
using namespace elastictrain::core;

namespace {

std::uint64_t from_environment(const char* name, std::uint64_t fallback) {
  const char* value = std::getenv(name);
  return value == nullptr ? fallback : std::strtoull(value, nullptr, 10);
}

class Life {
 public:
  explicit Life(std::uint64_t seed)
      : dice_(seed * 77 + 1), settings_(make_settings()), world_(seed, settings_, make_faults()) {}

  void live() {
    start();
    for (int wish = 0; wish < 12 && !over(); ++wish) {
      wish_something();
      world_.run_for(Millis(roll(4) == 0 ? roll(20) : roll(3000)));
    }
    settle();
    check_goal();
    check_notice();
    end();
    check(world_.all_answered(), "a request was never answered");
    for (const std::string& violation : world_.violations()) problems_.push_back(violation);
  }

  const std::vector<std::string>& problems() const { return problems_; }
  const FakeWorld& world() const { return world_; }

 private:
  std::uint32_t roll(std::uint32_t below) { return static_cast<std::uint32_t>(dice_() % below); }
  bool over() const { return world_.exit_status().has_value(); }
  void check(bool holds, const std::string& text) {
    if (!holds) problems_.push_back(text);
  }

  RunSettings make_settings() {
    RunSettings settings;
    settings.run_name = "fake";
    settings.min_workers = 1 + roll(2);
    settings.start_workers = settings.min_workers + roll(3);
    settings.max_workers = settings.start_workers + roll(5);
    settings.spares = roll(3);
    settings.batch = {8, roll(2) == 0 ? 0U : 8U * (1 + roll(8)), roll(2) == 0 ? AtLimit::kStop : AtLimit::kSplit};
    settings.hosts_may_appear = true;
    settings.suspect = Millis(25'000);  // the world's agents report every 10 s
    settings.dead = Millis(60'000);
    settings.has_checkpoints = roll(2) == 0;
    settings.failures.on_failure = roll(4) == 0 ? OnFailure::kShrink : OnFailure::kReplace;
    settings.failures.max_crashes = kUnlimited;
    settings.failures.max_hangs = kUnlimited;
    settings.failures.max_fruitless = kUnlimited;
    return settings;
  }

  WorldFaults make_faults() {
    if (roll(3) == 0) return {};
    return {0.1, 0.1, 0.2, 0.1, 0.05, 0.03};
  }

  std::vector<HostSlots> some_hosts() {
    std::vector<HostSlots> hosts;
    for (const char* name : {"A", "B", "C", "D"}) {
      if (roll(3) != 0) hosts.push_back({name, 1 + roll(3)});
    }
    return hosts;
  }

  // Enough for the largest run, so that the result depends only on the state machine.
  std::vector<HostSlots> many_hosts() const { return {{"A", 4}, {"B", 4}, {"E", 4}, {"F", 4}}; }

  void start() {
    world_.offer(some_hosts());
    world_.run_for(Millis(roll(6000)));
    if (roll(2) == 0 && !over()) world_.offer(many_hosts());
    world_.run_for(Millis(roll(6000)));
  }

  void lose_something() {
    switch (roll(7)) {
      case 0:
        world_.kill_agent();
        break;
      case 1:
        world_.break_connection(Millis(roll(3) == 0 ? roll(90'000) : roll(2000)));
        break;
      case 2:
        world_.break_collective();
        break;
      case 3:
        world_.notice_somebody();
        break;
      default:
        world_.kill_somebody();
        break;
    }
  }

  void wish_something() {
    if (roll(3) == 0) {
      lose_something();
      return;
    }
    const auto size = std::max<std::uint32_t>(world_.machine().view().world_size, 1);
    const std::string host(1, static_cast<char>('A' + roll(6)));
    switch (roll(10)) {
      case 0:
        world_.offer(some_hosts());
        break;
      case 1:
        world_.offer(many_hosts());
        break;
      case 2:
        world_.request_replace(roll(size + 1));
        break;
      case 3:
        world_.request_replace_host(host);
        break;
      case 4:
        world_.request_drain(host);
        break;
      default:
        world_.request_resize(roll(settings_.max_workers + 2));
        break;
    }
  }

  void settle() {
    if (over()) return;
    world_.no_more_faults();
    world_.heal_connections();
    world_.offer({});
    world_.run_for(Millis(120'000));
    world_.offer(many_hosts());
    world_.run_for(Millis(120'000));
    if (over()) return;
    goal_ = settings_.min_workers + roll(settings_.max_workers - settings_.min_workers + 1);
    world_.request_resize(goal_);
    world_.run_for(Millis(600'000));
  }

  void check_goal() {
    if (over()) {
      // A run continues after any losses; only a start can fail, the first one or one from a checkpoint.
      check(world_.exit_status() == 69, "ended with " + std::to_string(*world_.exit_status()));
      check(world_.machine().view().generation == 0, "a run that trained ended by itself");
      return;
    }
    const RunView view = world_.machine().view();
    const std::uint32_t most = std::max(heuristics::most_workers(settings_.batch), settings_.min_workers);
    const std::uint32_t expected = std::min(goal_, most);
    check(view.phase == RunPhase::kRunning, std::string("still ") + name_of(view.phase));
    check(view.world_size == expected,
          std::to_string(view.world_size) + " workers instead of " + std::to_string(expected));
    const auto spares = std::count_if(view.workers.begin(), view.workers.end(),
                                      [](const WorkerView& w) { return w.phase == WorkerPhase::kSpare; });
    check(static_cast<std::uint32_t>(spares) == settings_.spares, std::to_string(spares) + " spares");
    check(view.workers.size() == expected + settings_.spares, "workers are left over");
  }

  // A worker that alone gets TERM leaves, and the size stays.
  void check_notice() {
    if (over() || roll(2) == 0) return;
    const std::uint32_t size = world_.machine().view().world_size;
    const WorkerId noticed = world_.notice_member();
    world_.run_for(Millis(200'000));
    check(!over(), "a notice ended the run");
    check(!world_.lives(noticed), to_string(noticed) + " stays in spite of its notice");
    check(world_.machine().view().world_size == size, "a notice changed the size");
  }

  void end() {
    if (over()) return;
    const std::uint32_t way = roll(3);
    const int expected = way == 2 ? 75 : 0;
    if (roll(3) == 0) world_.request_resize(settings_.max_workers);
    world_.run_for(Millis(roll(4000)));
    // The last worker but one may be lost at any time; the end is the same.
    const bool loses_member = world_.machine().view().world_size > 2 && roll(2) == 0;
    if (loses_member && roll(2) == 0) world_.kill_somebody();
    if (way == 0) world_.finish();
    if (way == 1) world_.request_stop(StopCause::kUser);
    if (way == 2) world_.request_stop(StopCause::kPreempted);
    world_.run_for(Millis(roll(300)));
    if (loses_member && !over()) world_.kill_somebody();
    if (!over()) world_.request_resize(1);
    world_.run_for(Millis(200'000));
    check(over(), "the run does not end");
    if (!over()) return;
    check(*world_.exit_status() == expected,
          "status " + std::to_string(*world_.exit_status()) + " instead of " + std::to_string(expected));
    check(world_.living_workers() == 0, "workers outlive the run");
  }

  std::mt19937_64 dice_;
  RunSettings settings_;
  FakeWorld world_;
  std::uint32_t goal_ = 0;
  std::vector<std::string> problems_;
};

bool lives_well(std::uint64_t seed, bool tell) {
  Life life(seed);
  life.live();
  if (life.problems().empty() && !tell) return true;
  for (const std::string& line : life.world().story()) std::cerr << line << "\n";
  for (const std::string& problem : life.problems()) std::cerr << "seed " << seed << ": " << problem << "\n";
  return life.problems().empty();
}

}  // namespace

TEST_CASE("random runs keep the invariants and reach their targets") {
  if (const std::uint64_t seed = from_environment("ELASTICTRAIN_SEED", 0); seed != 0) {
    CHECK(lives_well(seed, true));
    return;
  }
  const std::uint64_t seeds = from_environment("ELASTICTRAIN_SEEDS", 3000);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    REQUIRE_MESSAGE(lives_well(seed, false), "seed " << seed);
  }
}
