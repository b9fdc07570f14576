#include "supervisor/core/pure/failure_detector.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <vector>

using namespace elastictrain;
using namespace elastictrain::core;

namespace {

using Kind = HangFinding::Kind;
using protocol::StepPlace;

FailureSettings hang_settings() {
  FailureSettings settings;
  settings.hang_steps = 3;
  settings.hang_min = Millis(1000);
  settings.hang_max = Millis(60'000);
  return settings;
}

// Workers that train in step, and their agents that report every 250 ms, as launcher/agent does: a silent worker is
// listed after two periods.
class TrainingRun {
 public:
  struct State {
    bool stopped = false;
    bool frozen = false;  // alive for the kernel, but none of its threads runs
    StepPlace place = StepPlace::kReducing;
    protocol::ProgramPhase phase = protocol::ProgramPhase::kNone;
    Millis in_place{0};
    Step step = 10;
    bool moves = true;
    std::uint64_t sequence = 0;
    Millis quiet{0};
    std::uint64_t cpu_ms = 0;
    double cpu = 1.0;  // of one core
    Generation generation = 1;
    protocol::WorkerHeartbeat last;
  };

  TrainingRun(std::uint32_t workers, Millis step, FailureSettings wanted = hang_settings())
      : detector_(wanted, Millis(2000), Millis(10'000)), step_time_(step) {
    std::vector<WorkerId> members;
    for (std::uint32_t id = 1; id <= workers; ++id) {
      members.push_back(WorkerId{id});
      workers_[WorkerId{id}];
    }
    detector_.assignment(1, members);
  }

  State& worker(std::uint32_t id) { return workers_[WorkerId{id}]; }
  void sits(std::uint32_t id, StepPlace place, double cpu) {
    State& state = worker(id);
    state.moves = false;
    state.place = place;
    state.in_place = Millis(0);
    state.cpu = cpu;
  }
  // All take their assignments at once.
  void assignment(Generation generation, const std::vector<WorkerId>& members) {
    detector_.assignment(generation, members);
    for (auto& [id, state] : workers_) state.generation = generation;
  }
  void stop(std::uint32_t id) {
    worker(id).stopped = true;
    others_wait();
  }
  void others_wait() {
    for (auto& [id, state] : workers_) {
      if (state.moves && !state.stopped && !state.frozen) sits(id.value, StepPlace::kReducing, 0.01);
    }
  }

  // Findings of the time, in order; stops at the first that ends a worker or the generation.
  std::vector<HangFinding> run_for(Millis time) {
    std::vector<HangFinding> findings;
    for (const Instant until = now_ + time; now_ < until;) {
      now_ += kPeriod;
      for (auto& [id, state] : workers_) {
        for (const HangFinding& finding : report(id, state)) findings.push_back(finding);
      }
      if (!findings.empty() && findings.back().kind >= Kind::kGuilty) break;
    }
    return findings;
  }
  void sleep(Millis time) { now_ += time; }
  Millis since(Instant when) const { return std::chrono::duration_cast<Millis>(now_ - when); }

  static constexpr Millis kPeriod{250};
  HangDetector detector_;
  Millis step_time_;
  Instant now_{};
  std::map<WorkerId, State> workers_;

 private:
  std::vector<HangFinding> report(WorkerId id, State& state) {
    if (state.stopped || state.frozen) {
      state.quiet += kPeriod;
      if (state.quiet < 2 * kPeriod) return {};
      return detector_.on_sample(sample(id, state), now_);
    }
    state.quiet = Millis(0);
    state.cpu_ms += static_cast<std::uint64_t>(static_cast<double>(kPeriod.count()) * state.cpu);
    advance(state);
    return detector_.on_sample(sample(id, state), now_);
  }
  void advance(State& state) {
    protocol::WorkerHeartbeat& heartbeat = state.last;
    heartbeat.sequence = ++state.sequence;
    heartbeat.generation = state.generation;
    heartbeat.steps = 0;
    state.in_place += kPeriod;
    if (state.moves) {
      const Step before = state.step;
      elapsed_[&state] += kPeriod;
      state.step += static_cast<Step>(elapsed_[&state] / step_time_);
      elapsed_[&state] %= step_time_;
      heartbeat.steps = static_cast<std::uint32_t>(state.step - before);
      if (heartbeat.steps > 0) {
        heartbeat.mean.step_us = static_cast<double>(step_time_.count()) * 1000;
        state.in_place = elapsed_[&state];
      }
    }
    heartbeat.step = state.step;
    heartbeat.place = state.place;
    heartbeat.phase = state.phase;
    heartbeat.place_ms = static_cast<std::uint64_t>(state.in_place.count());
  }
  protocol::WorkerSample sample(WorkerId id, const State& state) const {
    return {id, static_cast<std::uint64_t>(state.quiet.count()), state.last, state.cpu_ms, state.stopped};
  }

  std::map<State*, Millis> elapsed_;
};

std::vector<HangFinding> only(const std::vector<HangFinding>& findings, Kind kind) {
  std::vector<HangFinding> some;
  std::copy_if(findings.begin(), findings.end(), std::back_inserter(some),
               [&](const HangFinding& finding) { return finding.kind == kind; });
  return some;
}

}  // namespace

TEST_CASE("a stopped worker is guilty half a second after three learned steps") {
  TrainingRun run(3, Millis(500));
  CHECK(run.run_for(Millis(20'000)).empty());
  CHECK(run.detector_.learned_step() == Millis(500));
  run.stop(2);
  const Instant stopped = run.now_;
  const auto findings = run.run_for(Millis(10'000));
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].kind == Kind::kSuspected);
  CHECK(findings[1].kind == Kind::kGuilty);
  CHECK(findings[1].worker == WorkerId{2});
  CHECK(findings[1].why == "it is stopped");
  CHECK(findings[1].limit_ms == 1500);
  CHECK(findings[1].step_ms == 500);
  CHECK(run.since(stopped) <= Millis(2000));
}

TEST_CASE("with short steps a stopped worker is given one second") {
  TrainingRun run(2, Millis(50));
  run.run_for(Millis(20'000));
  run.stop(2);
  const Instant stopped = run.now_;
  const auto findings = run.run_for(Millis(10'000));
  REQUIRE_FALSE(findings.empty());
  CHECK(findings.back().kind == Kind::kGuilty);
  CHECK(findings.back().limit_ms == 1000);
  CHECK(run.since(stopped) <= Millis(1500));
  CHECK(run.since(stopped) >= Millis(1000));
}

TEST_CASE("a phase that the program announced is no hang before its own deadline, asleep in an open step or not") {
  for (const StepPlace place : {StepPlace::kComputing, StepPlace::kUpdating, StepPlace::kOutside}) {
    FailureSettings settings = hang_settings();
    settings.phase_timeout = Millis(300'000);
    TrainingRun run(3, Millis(500), settings);
    run.run_for(Millis(20'000));
    run.sits(2, place, 0);
    run.worker(2).phase = protocol::ProgramPhase::kEvaluation;
    run.others_wait();
    CHECK(run.run_for(Millis(299'000)).empty());
    const auto findings = run.run_for(Millis(10'000));
    REQUIRE_FALSE(findings.empty());
    CHECK(findings.back().kind == Kind::kGuilty);
    CHECK(findings.back().worker == WorkerId{2});
    CHECK(findings.back().limit_ms == 300'000);
  }
}

TEST_CASE("a phase that ends is followed by the usual limits, and a stopped process has no phase") {
  TrainingRun run(3, Millis(500));
  run.run_for(Millis(20'000));
  run.sits(2, StepPlace::kComputing, 0);
  run.worker(2).phase = protocol::ProgramPhase::kData;
  run.others_wait();
  CHECK(run.run_for(Millis(59'000)).empty());
  run.worker(2).phase = protocol::ProgramPhase::kNone;
  run.worker(2).in_place = Millis(0);
  const Instant ended = run.now_;
  const auto findings = run.run_for(Millis(20'000));
  REQUIRE_FALSE(findings.empty());
  CHECK(findings.back().kind == Kind::kGuilty);
  CHECK(run.since(ended) >= Millis(6000));
  TrainingRun other(3, Millis(500));
  other.run_for(Millis(20'000));
  other.worker(2).phase = protocol::ProgramPhase::kData;
  other.stop(2);
  CHECK(only(other.run_for(Millis(10'000)), Kind::kGuilty).size() == 1);
}

TEST_CASE("two workers that stop at once are both found") {
  TrainingRun run(4, Millis(100));
  run.run_for(Millis(20'000));
  run.worker(2).stopped = true;
  run.stop(3);
  auto findings = run.run_for(Millis(10'000));
  const auto more = run.run_for(Millis(10'000));
  findings.insert(findings.end(), more.begin(), more.end());
  std::vector<WorkerId> guilty;
  for (const HangFinding& finding : only(findings, Kind::kGuilty)) guilty.push_back(finding.worker);
  CHECK(guilty == std::vector<WorkerId>{WorkerId{2}, WorkerId{3}});
}

TEST_CASE("while a recovery waits for answers only processes that do nothing at all are judged") {
  TrainingRun run(4, Millis(100));
  run.run_for(Millis(20'000));
  run.detector_.hold();
  run.sits(1, StepPlace::kComputing, 0.0);
  run.sits(2, StepPlace::kHalted, 0.0);
  run.sits(3, StepPlace::kHalted, 0.0);
  run.worker(4).stopped = true;
  auto findings = run.run_for(Millis(5000));
  REQUIRE_FALSE(findings.empty());
  CHECK(findings.back().kind == Kind::kGuilty);
  CHECK(findings.back().worker == WorkerId{4});
  CHECK(findings.back().limit_ms == 1000);
  CHECK(run.run_for(Millis(100'000)).empty());
}

TEST_CASE("a suspicion is withdrawn if the worker makes progress in time") {
  TrainingRun run(2, Millis(100));
  run.run_for(Millis(20'000));
  run.stop(2);
  auto findings = run.run_for(Millis(1000));
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].kind == Kind::kSuspected);
  run.worker(2).stopped = false;
  run.worker(1).moves = true;
  findings = run.run_for(Millis(5000));
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].kind == Kind::kWithdrawn);
  CHECK(findings[0].worker == WorkerId{2});
}

TEST_CASE(
    "behind the sums of a step nobody waits for a worker in a collective of that step: it has the longest limit") {
  for (const double cpu : {0.0, 1.0}) {
    TrainingRun run(3, Millis(500));
    run.run_for(Millis(20'000));
    run.sits(3, StepPlace::kUpdating, cpu);
    run.others_wait();
    for (const std::uint32_t other : {1U, 2U}) ++run.worker(other).step;  // they have committed it
    CHECK(run.run_for(Millis(50'000)).empty());
    const auto findings = run.run_for(Millis(20'000));
    REQUIRE_FALSE(findings.empty());
    CHECK(findings.back().worker == WorkerId{3});
    CHECK(findings.back().limit_ms == 60'000);
    CHECK(findings.back().why.find("phase()") != std::string::npos);
  }
}

TEST_CASE("a worker between two sums of a step, for which others wait in that step, is found as inside of it") {
  TrainingRun run(3, Millis(500));
  run.run_for(Millis(20'000));
  run.sits(3, StepPlace::kUpdating, 0);
  run.others_wait();
  const auto findings = run.run_for(Millis(10'000));
  REQUIRE_FALSE(findings.empty());
  CHECK(findings.back().limit_ms == 6000);
}

TEST_CASE("a deadlock inside a step takes four limits, a loop that uses CPU ten") {
  for (const auto& [cpu, limit_ms] : std::map<double, std::uint64_t>{{0.0, 4000}, {0.9, 10'000}}) {
    CAPTURE(cpu);
    TrainingRun run(3, Millis(200));
    run.run_for(Millis(20'000));
    run.sits(3, StepPlace::kComputing, cpu);
    run.others_wait();
    const auto findings = run.run_for(Millis(60'000));
    REQUIRE_FALSE(findings.empty());
    CHECK(findings.back().kind == Kind::kGuilty);
    CHECK(findings.back().worker == WorkerId{3});
    CHECK(findings.back().limit_ms == limit_ms);
    CHECK(findings.back().still_ms >= limit_ms);
  }
}

TEST_CASE("a process that is silent and uses no CPU takes four limits, wherever it was") {
  for (const StepPlace place : {StepPlace::kOutside, StepPlace::kComputing, StepPlace::kReducing}) {
    TrainingRun run(3, Millis(200));
    run.run_for(Millis(20'000));
    run.sits(3, place, 0);
    run.others_wait();
    run.run_for(Millis(250));
    run.worker(3).frozen = true;
    const auto findings = run.run_for(Millis(60'000));
    REQUIRE_FALSE(findings.empty());
    CHECK(findings.back().kind == Kind::kGuilty);
    CHECK(findings.back().worker == WorkerId{3});
    CHECK(findings.back().limit_ms == 4000);
  }
}

TEST_CASE("evaluations and checkpoints may take long") {
  for (const StepPlace place : {StepPlace::kOutside, StepPlace::kCheckpoint}) {
    TrainingRun run(3, Millis(200));
    run.run_for(Millis(20'000));
    run.sits(1, place, 1.0);
    run.others_wait();
    CHECK(run.run_for(Millis(59'000)).empty());
    const auto findings = run.run_for(Millis(3000));
    REQUIRE_FALSE(findings.empty());
    CHECK(findings.back().kind == Kind::kGuilty);
    CHECK(findings.back().worker == WorkerId{1});
    CHECK(findings.back().why.starts_with("it makes no progress at all"));
  }
}

TEST_CASE("the first step of a run has until hang_max") {
  TrainingRun run(2, Millis(100));
  run.sits(1, StepPlace::kComputing, 1.0);
  run.sits(2, StepPlace::kReducing, 0.0);
  CHECK(run.run_for(Millis(59'000)).empty());
  CHECK(only(run.run_for(Millis(3000)), Kind::kGuilty).size() == 1);
}

TEST_CASE("the first steps after a change are judged as first ones in the same worker") {
  TrainingRun run(2, Millis(100));
  run.run_for(Millis(20'000));
  run.assignment(2, {WorkerId{1}, WorkerId{2}});
  run.sits(1, StepPlace::kComputing, 1.0);  // compiles for its new batch
  run.others_wait();
  CHECK(run.run_for(Millis(50'000)).empty());
}

TEST_CASE("a worker that does not take its assignment after a recovery is detected anywhere; an evaluation continues") {
  for (const auto& [place, limit_ms] : std::map<StepPlace, std::uint64_t>{{StepPlace::kHalted, 14'000},
                                                                          {StepPlace::kComputing, 14'000},
                                                                          {StepPlace::kReducing, 14'000},
                                                                          {StepPlace::kOutside, 60'000}}) {
    CAPTURE(static_cast<int>(place));
    TrainingRun run(2, Millis(100));
    run.run_for(Millis(20'000));
    run.detector_.hold();
    run.sits(1, place, 0.0);
    run.others_wait();
    run.run_for(Millis(500));
    run.detector_.assignment(3, {WorkerId{1}, WorkerId{2}});
    run.worker(2).generation = 3;
    const auto findings = run.run_for(Millis(100'000));
    REQUIRE_FALSE(findings.empty());
    CHECK(findings.back().kind == Kind::kGuilty);
    CHECK(findings.back().worker == WorkerId{1});
    CHECK(findings.back().limit_ms == limit_ms);
  }
}

TEST_CASE("a stopped worker is found in the first step after a change too") {
  TrainingRun run(2, Millis(500));
  run.run_for(Millis(20'000));
  run.assignment(2, {WorkerId{1}, WorkerId{2}});
  run.stop(1);
  const auto findings = run.run_for(Millis(10'000));
  REQUIRE_FALSE(findings.empty());
  CHECK(findings.back().worker == WorkerId{1});
  CHECK(findings.back().limit_ms == 1500);
}

TEST_CASE("a worker that is stopped before any step was measured is found without waiting for the longest time") {
  TrainingRun run(2, Millis(500));
  run.stop(2);
  const auto findings = run.run_for(Millis(20'000));
  REQUIRE_FALSE(findings.empty());
  CHECK(findings.back().kind == Kind::kGuilty);
  CHECK(findings.back().worker == WorkerId{2});
  CHECK(findings.back().limit_ms == 10'000);
}

TEST_CASE("a world of one is judged by itself, with the wide limit") {
  TrainingRun run(1, Millis(500));
  run.run_for(Millis(20'000));
  run.stop(1);
  const auto findings = run.run_for(Millis(30'000));
  REQUIRE_FALSE(findings.empty());
  CHECK(findings.back().kind == Kind::kGuilty);
  CHECK(findings.back().limit_ms == 6000);
}

TEST_CASE("no worker is blamed when all are stopped at once") {
  TrainingRun run(3, Millis(100));
  run.run_for(Millis(20'000));
  for (std::uint32_t id = 1; id <= 3; ++id) run.worker(id).stopped = true;
  CHECK(run.run_for(Millis(50'000)).empty());
}

TEST_CASE("a slow step is not a hang as long as no worker waits") {
  TrainingRun run(3, Millis(200));
  run.run_for(Millis(20'000));
  for (std::uint32_t id = 1; id <= 3; ++id) run.sits(id, StepPlace::kComputing, 0.0);
  CHECK(run.run_for(Millis(50'000)).empty());
  CHECK(only(run.run_for(Millis(20'000)), Kind::kGuilty).size() == 3);
}

TEST_CASE("two samples read at the same instant count as one check") {
  HangDetector detector(hang_settings(), Millis(2000), Millis(10'000));
  detector.assignment(1, {WorkerId{1}});
  protocol::WorkerSample sample{WorkerId{1}, 0, {}, 0, true};
  sample.heartbeat.place = StepPlace::kComputing;
  std::size_t found = 0;
  for (int ms = 0; ms < 10'000; ms += 1000) {
    sample.quiet_ms = static_cast<std::uint64_t>(ms);
    found += detector.on_sample(sample, Instant{} + Millis(ms)).size();
  }
  REQUIRE(found == 0);
  sample.quiet_ms = 10'000;
  CHECK(detector.on_sample(sample, Instant{} + Millis(10'000)).size() == 1);
  CHECK(detector.on_sample(sample, Instant{} + Millis(10'000)).empty());
  CHECK(detector.on_sample(sample, Instant{} + Millis(10'250)).size() == 1);
}

TEST_CASE("a suspended run, and our own late checks, blame no worker") {
  TrainingRun run(3, Millis(300));
  run.run_for(Millis(20'000));
  run.sits(1, StepPlace::kComputing, 0.5);
  run.others_wait();
  run.run_for(Millis(500));
  run.sleep(Millis(600'000));
  // All processes resume: the agents count the time as silence, the workers as time in their place.
  for (auto& [id, state] : run.workers_) {
    state.quiet = Millis(600'000);
    state.in_place += Millis(600'000);
  }
  CHECK(run.run_for(Millis(1000)).empty());
  for (auto& [id, state] : run.workers_) state.moves = true;
  CHECK(run.run_for(Millis(5000)).empty());
}

TEST_CASE("when all wait in the all-reduce the data plane is stuck, not a worker") {
  TrainingRun run(3, Millis(100));
  run.run_for(Millis(20'000));
  run.others_wait();
  auto findings = run.run_for(Millis(30'000));
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].kind == Kind::kStandstill);
  CHECK(findings[0].worker != WorkerId{});
  CHECK(findings[1].kind == Kind::kStuck);
  CHECK(findings[1].times == 1);
  CHECK(findings[1].still_ms >= 4000);
  // The recovery rebuilds it, and it is blocked again: the second time in sequence.
  run.assignment(2, {WorkerId{1}, WorkerId{2}, WorkerId{3}});
  CHECK(run.run_for(Millis(30'000)).empty());  // a network that repairs itself costs no host
  findings = run.run_for(Millis(5'000));
  REQUIRE(findings.size() == 2);
  CHECK(findings[1].times == 2);
  CHECK(findings[1].still_ms >= 31'000);
}

TEST_CASE("progress makes a stuck data plane a first one again") {
  TrainingRun run(2, Millis(100));
  run.run_for(Millis(20'000));
  run.others_wait();
  REQUIRE(only(run.run_for(Millis(30'000)), Kind::kStuck).size() == 1);
  run.assignment(2, {WorkerId{1}, WorkerId{2}});
  for (auto& [id, state] : run.workers_) state.moves = true;
  CHECK(run.run_for(Millis(20'000)).empty());
  run.others_wait();
  const auto findings = only(run.run_for(Millis(30'000)), Kind::kStuck);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].times == 1);
}

TEST_CASE("consecutive recoveries do not hide a worker that does not take its assignment") {
  for (const auto& [place, max_ms] : std::map<StepPlace, std::int64_t>{{StepPlace::kComputing, 17'000},
                                                                       {StepPlace::kHalted, 17'000},
                                                                       {StepPlace::kOutside, 62'000},
                                                                       {StepPlace::kCheckpoint, 62'000}}) {
    CAPTURE(static_cast<int>(place));
    TrainingRun run(2, Millis(100));
    run.run_for(Millis(20'000));
    run.sits(1, place, 0.0);
    run.others_wait();
    Millis assigned{0};
    std::vector<HangFinding> findings;
    for (Generation generation = 3; findings.empty() && generation < 99; generation += 2) {
      run.detector_.hold();
      run.run_for(Millis(500));
      run.detector_.assignment(generation, {WorkerId{1}, WorkerId{2}});
      run.worker(2).generation = generation;
      const Instant began = run.now_;
      findings = only(run.run_for(Millis(5000)), Kind::kGuilty);
      assigned += run.since(began);
    }
    REQUIRE_FALSE(findings.empty());
    CHECK(findings.back().worker == WorkerId{1});
    CHECK(assigned <= Millis(max_ms));
  }
}

TEST_CASE("a worker that joins again from another one's state, and does not come to its first step, is detected") {
  TrainingRun run(2, Millis(100));
  run.run_for(Millis(20'000));
  run.detector_.hold();
  run.sits(1, StepPlace::kHalted, 1.0);
  run.others_wait();
  run.run_for(Millis(5000));
  run.assignment(3, {WorkerId{1}, WorkerId{2}});
  run.run_for(Millis(50'000));
  const auto findings = run.run_for(Millis(20'000));
  REQUIRE_FALSE(findings.empty());
  CHECK(findings.back().kind == Kind::kGuilty);
  CHECK(findings.back().worker == WorkerId{1});
  CHECK(findings.back().limit_ms == 60'000);
}

TEST_CASE("the time in which a recovery was blocked counts against no worker") {
  TrainingRun run(2, Millis(100));
  run.run_for(Millis(20'000));
  run.detector_.hold();
  run.sits(1, StepPlace::kHalted, 0.0);
  run.others_wait();
  CHECK(run.run_for(Millis(300'000)).empty());
  run.detector_.assignment(3, {WorkerId{1}, WorkerId{2}});
  CHECK(run.run_for(Millis(10'000)).empty());
}

TEST_CASE("of the starting workers only the missing one is detected") {
  TrainingRun run(3, Millis(100));
  for (std::uint32_t id = 1; id <= 3; ++id) {
    run.worker(id).generation = 0;
    run.sits(id, StepPlace::kStarting, 0.0);
  }
  run.detector_.hold();  // a start before this one was lost
  run.run_for(Millis(90'000));
  run.detector_.assignment(5, {WorkerId{1}, WorkerId{2}, WorkerId{3}});
  run.worker(1).generation = run.worker(2).generation = 5;
  CHECK(run.run_for(Millis(59'000)).empty());
  const auto findings = run.run_for(Millis(3000));
  REQUIRE_FALSE(findings.empty());
  CHECK(findings.back().kind == Kind::kGuilty);
  CHECK(findings.back().worker == WorkerId{3});
}

TEST_CASE("a joiner that waits for members which never come to the boundary hides nothing") {
  TrainingRun run(2, Millis(100));
  run.run_for(Millis(20'000));
  run.others_wait();
  run.worker(3).generation = 2;
  run.sits(3, StepPlace::kStarting, 0.0);
  run.detector_.watch(WorkerId{3});
  CHECK(only(run.run_for(Millis(30'000)), Kind::kStuck).size() == 1);
}

TEST_CASE("a world of one has no worker to wait for in the all-reduce") {
  TrainingRun run(1, Millis(100));
  run.run_for(Millis(20'000));
  run.sits(1, StepPlace::kReducing, 0.0);
  const auto findings = run.run_for(Millis(10'000));
  REQUIRE_FALSE(findings.empty());
  CHECK(findings.back().kind == Kind::kGuilty);
  CHECK(findings.back().limit_ms == 4000);
}

TEST_CASE("detection can be switched off") {
  FailureSettings off = hang_settings();
  off.detect_hangs = false;
  TrainingRun run(2, Millis(100), off);
  run.run_for(Millis(20'000));
  run.stop(2);
  CHECK(run.run_for(Millis(120'000)).empty());
}

// Four threads per core: steps take between half and six times as long as usual, heartbeats are late, processes wait
// for a core for seconds.
TEST_CASE("an hour on an overloaded machine gives no verdict") {
  for (std::uint32_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto between = [&](int low, int high) { return std::uniform_int_distribution<>(low, high)(random); };
    HangDetector detector(hang_settings(), Millis(2000), Millis(10'000));
    constexpr std::uint32_t kWorkers = 4;
    std::vector<WorkerId> members;
    for (std::uint32_t id = 1; id <= kWorkers; ++id) members.push_back(WorkerId{id});
    detector.assignment(1, members);
    struct Worker {
      int compute_left = 0;
      int place_ms = 0;
      StepPlace place = StepPlace::kComputing;
      int until_heartbeat = 250;
      int quiet = 0;
      double cpu = 0;
      protocol::WorkerHeartbeat heartbeat;
      int step_began = 0;
    };
    std::vector<Worker> workers(kWorkers);
    Step step = 1;
    int now = 0;
    const auto open_step = [&] {
      for (Worker& worker : workers) {
        const int usual = between(50, 200);
        worker.compute_left = between(0, 99) < 3 ? usual * between(5, 25) : usual;
        worker.place = StepPlace::kComputing;
        worker.place_ms = 0;
      }
    };
    open_step();
    std::size_t verdicts = 0;
    for (; now < 3'600'000; now += 10) {
      bool all_wait = true;
      for (Worker& worker : workers) {
        worker.place_ms += 10;
        if (worker.place == StepPlace::kComputing) {
          worker.cpu += 2.5;
          if ((worker.compute_left -= 10) <= 0) {
            worker.place = StepPlace::kReducing;
            worker.place_ms = 0;
          }
        }
        all_wait = all_wait && worker.place == StepPlace::kReducing;
      }
      if (all_wait) {
        for (Worker& worker : workers) {
          worker.heartbeat.steps += 1;
          worker.heartbeat.mean.step_us = (now - worker.step_began) * 1000.0;
          worker.step_began = now;
        }
        ++step;
        open_step();
      }
      for (std::uint32_t i = 0; i < kWorkers; ++i) {
        Worker& worker = workers[i];
        worker.quiet += 10;
        if ((worker.until_heartbeat -= 10) > 0 && worker.quiet < 500) continue;
        const bool speaks = worker.until_heartbeat <= 0;
        if (speaks) {
          worker.until_heartbeat = between(0, 49) == 0 ? between(500, 1500) : between(250, 400);
          worker.quiet = 0;
          worker.heartbeat.sequence += 1;
          worker.heartbeat.generation = 1;
          worker.heartbeat.step = step;
          worker.heartbeat.place = worker.place;
          worker.heartbeat.place_ms = static_cast<std::uint64_t>(worker.place_ms);
        } else if (now % 250 != 0) {
          continue;
        }
        const protocol::WorkerSample sample{WorkerId{i + 1}, static_cast<std::uint64_t>(worker.quiet), worker.heartbeat,
                                            static_cast<std::uint64_t>(worker.cpu), false};
        for (const HangFinding& finding : detector.on_sample(sample, Instant{} + Millis(now))) {
          if (finding.kind >= Kind::kGuilty) ++verdicts;
        }
        if (speaks) worker.heartbeat.steps = 0;
      }
    }
    CHECK(step > 5'000);
    CHECK(verdicts == 0);
  }
}
