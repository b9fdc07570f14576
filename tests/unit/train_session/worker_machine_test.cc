#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "train/session/worker_machine.h"

namespace elastictrain::session {
namespace {

using Kind = WorkerMachine::AssignmentKind;
using Place = WorkerMachine::Place;
using protocol::GenerationPlan;
using protocol::WorkerHalted;

constexpr WorkerId kSelf{1};

struct PlanOptions {
  Generation previous = 0;
  std::vector<std::uint32_t> joiners;
  std::vector<std::uint32_t> donors;
  Generation fence = 0;
  Step resume_step = 0;
};

GenerationPlan plan_of(Generation generation, const std::vector<std::uint32_t>& workers, const PlanOptions& options) {
  GenerationPlan plan{.generation = generation, .previous = options.previous};
  plan.fence = options.fence;
  plan.resume_step = options.resume_step;
  for (const auto worker : workers) {
    const auto& joiners = options.joiners;
    const bool joins = std::find(joiners.begin(), joiners.end(), worker) != joiners.end();
    plan.members.push_back({.worker = WorkerId{worker}, .share = 8, .joiner = joins});
  }
  for (const auto donor : options.donors) plan.donors.push_back(WorkerId{donor});
  return plan;
}

// The machine of worker 1 with an object that carries out its effects.
struct Story {
  WorkerMachine machine{kSelf};
  std::vector<Generation> builds;
  std::vector<Generation> drops;
  std::vector<WorkerHalted> halts;
  std::vector<Generation> prepared;
  std::vector<std::string> held;
  int aborts = 0;
  int finished = 0;

  void carry_out() {
    for (auto& effect : machine.take_effects()) {
      if (auto* build = std::get_if<WorkerMachine::StartBuild>(&effect)) {
        builds.push_back(build->plan.generation);
      } else if (auto* drop = std::get_if<WorkerMachine::DropBuild>(&effect)) {
        drops.push_back(drop->generation);
      } else if (std::holds_alternative<WorkerMachine::AbortAssignment>(effect)) {
        ++aborts;
      } else if (auto* say = std::get_if<WorkerMachine::Say>(&effect)) {
        if (auto* halted = std::get_if<WorkerHalted>(&say->message)) halts.push_back(*halted);
        if (auto* done = std::get_if<protocol::WorkerPrepared>(&say->message)) prepared.push_back(done->generation);
        if (auto* note = std::get_if<protocol::WorkerNote>(&say->message)) held.push_back(note->value);
        if (std::holds_alternative<protocol::WorkerFinished>(say->message)) ++finished;
      }
    }
  }
  void hear(const protocol::WorkerDown& message) {
    machine.hear(message);
    carry_out();
  }
  void abort(Generation fence) { hear(protocol::Abort{fence, "a member died"}); }
  void prepare(const GenerationPlan& plan) { hear(protocol::Prepare{plan}); }
  // Prepared, built and committed.
  void promise(const GenerationPlan& plan) {
    prepare(plan);
    machine.built(plan.generation);
    hear(protocol::Commit{plan.generation});
  }
  // A member of generation 1 (workers 1, 2, 3) that has committed so many steps.
  void train(Step steps) {
    promise(plan_of(1, {1, 2, 3}, {}));
    REQUIRE(machine.take_assignment(false)->kind == Kind::kPlanned);
    REQUIRE(machine.enter_loop(0, true));
    for (Step step = 1; step <= steps; ++step) whole_step(step);
  }
  void whole_step(Step step) {
    reduce_step();
    commit(step);
  }
  void reduce_step() {
    machine.step_opened();
    REQUIRE(machine.enter_collective());
    machine.leave_collective();
    carry_out();
  }
  void commit(Step step, bool everyone_ready = false) {
    machine.step_committed(step, everyone_ready);
    carry_out();
  }
  void fail_collective() {
    machine.collective_failed("worker 3 went away");
    carry_out();
  }
  bool enter() {
    const bool may = machine.enter_collective();
    carry_out();
    return may;
  }
};

// A recovery of generation 1 after the loss of worker 3: fence 2, generation 3.
GenerationPlan recovery(Step resume_step, std::vector<std::uint32_t> joiners = {}) {
  return plan_of(3, {1, 2},
                 {.previous = 1, .joiners = std::move(joiners), .donors = {2}, .fence = 2, .resume_step = resume_step});
}

TEST_CASE("a change goes from prepare to the boundary at which the lane shows that all are ready") {
  Story story;
  story.train(2);
  story.prepare(plan_of(2, {1, 2}, {.previous = 1}));
  CHECK(story.builds == std::vector<Generation>{1, 2});
  CHECK_FALSE(story.machine.swap_ready());
  story.machine.built(2);
  CHECK_FALSE(story.machine.swap_ready());
  story.hear(protocol::Commit{2});
  CHECK(story.machine.swap_ready());
  CHECK_FALSE(story.machine.take_assignment(false));
  story.reduce_step();
  story.commit(3, true);
  const auto next = story.machine.take_assignment(true);
  REQUIRE(next);
  CHECK(next->kind == Kind::kPlanned);
  CHECK(next->rank == 0);
  CHECK_FALSE(next->is_void);
  CHECK(story.machine.generation() == 2);
}

TEST_CASE("a computing worker answers an Abort at once, and its next collective does not begin") {
  Story story;
  story.train(2);
  story.machine.step_opened();
  story.abort(2);
  CHECK(story.aborts == 1);
  REQUIRE(story.halts.size() == 1);
  CHECK(story.halts[0].fence == 2);
  CHECK(story.halts[0].generation == 1);
  CHECK(story.halts[0].committed_step == 2);
  CHECK(story.halts[0].has_state);
  CHECK(story.halts[0].in_loop);
  CHECK_FALSE(story.enter());
  CHECK(story.machine.place() == Place::kHalted);
  CHECK(story.halts.size() == 1);
}

TEST_CASE("in the middle of a collective the answer waits until it has failed") {
  Story story;
  story.train(2);
  story.machine.step_opened();
  REQUIRE(story.enter());
  story.abort(2);
  CHECK(story.aborts == 1);
  CHECK(story.halts.empty());
  story.fail_collective();
  REQUIRE(story.halts.size() == 1);
  CHECK(story.halts[0].fence == 2);
  CHECK(story.halts[0].committed_step == 2);
}

TEST_CASE("a worker whose device keeps it from an answer says so once for each Abort") {
  Story story;
  const auto look = [&] {
    story.machine.device_is_held("it works");
    story.carry_out();
  };
  story.train(2);
  look();
  CHECK(story.held.empty());  // nobody waits for an answer
  story.machine.step_opened();
  REQUIRE(story.enter());
  story.abort(2);
  look();
  look();
  CHECK(story.held == std::vector<std::string>{"it works"});
  story.abort(3);
  look();
  CHECK(story.held.size() == 2);
  story.fail_collective();
  look();
  CHECK(story.held.size() == 2);
}

TEST_CASE("a step that is reduced is committed before the answer names it") {
  Story story;
  story.train(2);
  story.reduce_step();
  story.abort(2);
  CHECK(story.halts.empty());
  story.commit(3);
  REQUIRE(story.halts.size() == 1);
  CHECK(story.halts[0].committed_step == 3);
}

TEST_CASE("between two buckets of a step the answer comes at the second, which does not begin") {
  Story story;
  story.train(2);
  story.reduce_step();
  story.abort(2);
  CHECK(story.halts.empty());
  CHECK_FALSE(story.enter());
  REQUIRE(story.halts.size() == 1);
  CHECK(story.halts[0].committed_step == 2);
}

TEST_CASE("a collective that fails by itself is reported once, and the following Abort is answered") {
  Story story;
  story.train(2);
  story.machine.step_opened();
  REQUIRE(story.enter());
  story.fail_collective();
  REQUIRE(story.halts.size() == 1);
  CHECK(story.halts[0].fence == 0);
  CHECK(story.halts[0].reason == "worker 3 went away");
  CHECK_FALSE(story.enter());
  CHECK(story.halts.size() == 1);
  story.abort(2);
  REQUIRE(story.halts.size() == 2);
  CHECK(story.halts[1].fence == 2);
  story.abort(2);  // after a broken connection: the same answer
  CHECK(story.halts.size() == 3);
  story.abort(1);  // long over
  CHECK(story.halts.size() == 3);
}

TEST_CASE("a worker at the resume step continues its open step in the recovered generation") {
  Story story;
  story.train(2);
  story.machine.step_opened();
  story.abort(2);
  story.prepare(recovery(2));
  story.hear(protocol::Commit{3});
  CHECK_FALSE(story.machine.take_assignment(false));  // not built yet
  story.machine.built(3);
  const auto next = story.machine.take_assignment(false);
  REQUIRE(next);
  CHECK(next->kind == Kind::kContinue);
  CHECK(story.machine.generation() == 3);
  CHECK_FALSE(story.machine.assignment_is_void());
  CHECK(story.enter());
  story.machine.leave_collective();
  story.commit(3);
  CHECK(story.machine.committed_step() == 3);
}

TEST_CASE("a worker that is behind gives up its step and joins again") {
  Story story;
  story.train(2);
  story.machine.step_opened();
  REQUIRE(story.enter());
  story.abort(2);
  story.fail_collective();
  story.promise(recovery(3, {1}));
  CHECK(story.machine.take_assignment(false)->kind == Kind::kRejoin);
  CHECK_FALSE(story.machine.has_state());
  story.machine.step_discarded();
  CHECK(story.machine.enter_loop(3, false));
  story.reduce_step();
  story.machine.state_complete();
  story.commit(4);
  CHECK(story.machine.has_state());
  CHECK(story.machine.committed_step() == 4);
}

TEST_CASE("a second loss before the state has come finds a worker without it") {
  Story story;
  story.train(2);
  story.machine.step_opened();
  REQUIRE(story.enter());
  story.abort(2);
  story.fail_collective();
  story.promise(recovery(3, {1}));
  REQUIRE(story.machine.take_assignment(false));
  story.machine.step_discarded();
  story.abort(4);
  CHECK_FALSE(story.machine.enter_loop(3, false));
  REQUIRE(story.halts.size() == 2);
  CHECK(story.halts[1].fence == 4);
  CHECK_FALSE(story.halts[1].has_state);
  CHECK(story.halts[1].in_loop);
}

TEST_CASE("a worker that adopted a state holds no gradients before it has committed a step of its own") {
  Story story;
  story.train(2);
  story.machine.step_opened();
  REQUIRE(story.enter());
  story.abort(2);
  story.fail_collective();
  CHECK(story.halts.back().has_gradients);
  story.promise(recovery(3, {1}));
  REQUIRE(story.machine.take_assignment(false));
  story.machine.step_discarded();
  REQUIRE(story.machine.enter_loop(3, false));
  story.machine.state_complete();
  story.abort(4);
  CHECK(story.halts.back().has_state);
  CHECK(story.halts.back().committed_step == 3);
  CHECK_FALSE(story.halts.back().has_gradients);
  story.promise(plan_of(5, {1}, {.previous = 3, .fence = 4, .resume_step = 3}));  // no other worker is left
  CHECK(story.machine.take_assignment(false)->kind == Kind::kContinue);
  story.whole_step(4);
  story.abort(6);
  CHECK(story.halts.back().has_gradients);
}

TEST_CASE("a recovery that is cancelled is followed by another from the same answers") {
  Story story;
  story.train(2);
  story.abort(2);
  story.prepare(recovery(2));
  story.machine.built(3);
  story.hear(protocol::Cancel{3});
  CHECK_FALSE(story.machine.take_assignment(false));
  story.promise(plan_of(4, {1}, {.previous = 1, .fence = 2, .resume_step = 2}));
  CHECK(story.machine.take_assignment(false)->plan.generation == 4);
  CHECK(story.halts.size() == 1);
}

TEST_CASE("everything up to the fence is dead: prepared plans, committed ones, late messages") {
  Story story;
  story.train(2);
  story.promise(plan_of(2, {1, 2}, {.previous = 1}));
  CHECK(story.machine.swap_ready());
  story.abort(3);
  CHECK_FALSE(story.machine.swap_ready());
  CHECK(story.drops == std::vector<Generation>{2});
  story.promise(plan_of(3, {1, 2}, {.previous = 1}));
  story.promise(plan_of(4, {1, 2}, {.previous = 1, .fence = 2}));  // of an older fence
  CHECK_FALSE(story.machine.take_assignment(false));
  CHECK(story.builds == std::vector<Generation>{1, 2});
}

TEST_CASE(
    "a change that the lane agreed on determines the shares of the next step, although an Abort came before it was "
    "taken") {
  Story story;
  story.train(2);
  story.promise(plan_of(2, {1, 2}, {.previous = 1}));
  story.reduce_step();
  story.abort(3);
  CHECK_FALSE(story.machine.swap_ready());
  story.commit(3, true);
  REQUIRE(story.halts.size() == 1);
  CHECK(story.halts[0].committed_step == 3);
  const auto next = story.machine.take_assignment(true);
  REQUIRE(next);
  CHECK(next->is_void);
  CHECK(next->plan.generation == 2);
  CHECK(story.machine.assignment_is_void());
  story.machine.step_opened();
  CHECK_FALSE(story.enter());
  CHECK(story.halts.size() == 1);
}

TEST_CASE("a change that the lane agreed on is taken first, although a loss has ended a collective behind the step") {
  for (const bool abort_came : {false, true}) {
    Story story;
    story.train(2);
    story.promise(plan_of(2, {1, 2}, {.previous = 1}));
    story.reduce_step();
    story.commit(3, true);
    REQUIRE(story.enter());
    if (abort_came) story.abort(3);
    story.fail_collective();
    REQUIRE(story.halts.size() == 1);
    CHECK(story.halts[0].committed_step == 3);
    const auto next = story.machine.take_assignment(true);
    REQUIRE(next);
    CHECK(next->plan.generation == 2);
    CHECK(next->is_void == abort_came);
    if (!abort_came) story.abort(3);  // its other members have lost somebody, too
    story.machine.step_opened();
    CHECK_FALSE(story.enter());
    story.promise(plan_of(4, {1, 2}, {.previous = 2, .fence = 3, .resume_step = 3}));
    CHECK(story.machine.take_assignment(false)->kind == Kind::kContinue);
  }
}

TEST_CASE("a leaver whose change became void stays for the recovery") {
  Story story;
  story.train(2);
  story.promise(plan_of(2, {2, 3}, {.previous = 1}));
  story.reduce_step();
  story.abort(3);
  story.commit(3, true);
  const auto next = story.machine.take_assignment(true);
  REQUIRE(next);
  CHECK(next->is_void);
  CHECK(next->kind == Kind::kLeave);
  CHECK_FALSE(story.machine.is_over());
  story.promise(plan_of(4, {1, 2}, {.previous = 2, .fence = 3, .resume_step = 3}));
  CHECK(story.machine.take_assignment(false)->kind == Kind::kContinue);
}

TEST_CASE("a worker that has left builds nothing") {
  Story story;
  story.train(2);
  story.promise(plan_of(2, {2, 3}, {.previous = 1}));
  story.reduce_step();
  story.commit(3, true);
  story.prepare(plan_of(3, {1, 2}, {.previous = 2}));
  CHECK(story.machine.take_assignment(true)->kind == Kind::kLeave);
  story.carry_out();
  CHECK(story.drops == std::vector<Generation>{3});
}

TEST_CASE("a leaver that has left answers nothing") {
  Story story;
  story.train(2);
  story.promise(plan_of(2, {2, 3}, {.previous = 1}));
  story.reduce_step();
  story.commit(3, true);
  CHECK(story.machine.take_assignment(true)->kind == Kind::kLeave);
  story.abort(3);
  CHECK(story.halts.empty());
}

TEST_CASE("an Abort in the first broadcast sends all workers back to the start") {
  Story story;
  story.promise(plan_of(1, {1, 2, 3}, {}));
  REQUIRE(story.machine.take_assignment(false));
  story.abort(2);
  CHECK(story.aborts == 1);
  REQUIRE(story.halts.size() == 1);
  CHECK_FALSE(story.halts[0].has_state);
  CHECK_FALSE(story.halts[0].in_loop);
  CHECK_FALSE(story.machine.enter_loop(0, true));
  story.fail_collective();
  CHECK(story.halts.size() == 1);
  story.promise(plan_of(3, {1, 2}, {}));
  CHECK(story.machine.take_assignment(false)->plan.generation == 3);
  CHECK(story.machine.enter_loop(0, true));
}

TEST_CASE("a joiner whose donors died returns to being ready") {
  Story story;
  story.promise(plan_of(2, {1, 2, 3}, {.previous = 1, .joiners = {1}, .donors = {2, 3}}));
  REQUIRE(story.machine.take_assignment(false));
  story.fail_collective();
  REQUIRE(story.halts.size() == 1);
  CHECK(story.halts[0].fence == 0);
  CHECK_FALSE(story.machine.take_assignment(false));
  story.abort(3);
  CHECK_FALSE(story.halts.back().in_loop);
  story.promise(plan_of(4, {1, 2}, {.previous = 1, .joiners = {1}, .donors = {2}, .fence = 3, .resume_step = 7}));
  const auto next = story.machine.take_assignment(false);
  REQUIRE(next);
  CHECK(next->kind == Kind::kPlanned);
  CHECK(story.machine.enter_loop(7, false));
}

TEST_CASE("a spare that was not asked to halt can be assigned by a recovery") {
  Story story;
  story.promise(plan_of(4, {1, 2}, {.previous = 1, .joiners = {1}, .donors = {2}, .fence = 3, .resume_step = 7}));
  CHECK(story.machine.take_assignment(false)->kind == Kind::kPlanned);
  CHECK(story.halts.empty());
}

TEST_CASE("a recovery can stop the run, and one of its holders writes the checkpoint") {
  Story story;
  story.train(2);
  story.abort(2);
  story.promise(plan_of(3, {}, {.previous = 1, .donors = {1}, .fence = 2, .resume_step = 2}));
  const auto next = story.machine.take_assignment(false);
  REQUIRE(next);
  CHECK(next->kind == Kind::kStop);
  CHECK(next->writes_checkpoint);
  CHECK(story.prepared.back() == 3);
}

TEST_CASE("of several holders the first writes the checkpoint of a stop") {
  Story story;
  story.train(2);
  story.abort(2);
  story.promise(plan_of(3, {}, {.previous = 1, .donors = {2, 1}, .fence = 2, .resume_step = 2}));
  const auto next = story.machine.take_assignment(false);
  REQUIRE(next);
  CHECK(next->kind == Kind::kStop);
  CHECK_FALSE(next->writes_checkpoint);
}

TEST_CASE("a worker that has passed the last barrier is not asked any more") {
  Story story;
  story.train(2);
  REQUIRE(story.enter());
  story.abort(2);
  CHECK(story.halts.empty());
  story.machine.finished();
  story.carry_out();
  CHECK(story.finished == 1);
  CHECK(story.halts.empty());
}

TEST_CASE("a dismissed spare ends, a dismissed member trains on") {
  Story spare;
  spare.hear(protocol::Dismiss{"not needed"});
  CHECK(spare.machine.take_assignment(false)->kind == Kind::kDismissed);
  Story member;
  member.train(1);
  member.hear(protocol::Dismiss{"a message that went astray"});
  CHECK_FALSE(member.machine.take_assignment(false));
}

}  // namespace
}  // namespace elastictrain::session
