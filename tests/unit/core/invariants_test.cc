// The invariants must be able to fail: each test gives them a step that breaks exactly one.
#include "supervisor/core/pure/invariants.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <initializer_list>
#include <variant>

using namespace elastictrain;
using namespace elastictrain::core;

namespace {

class Bench {
 public:
  Bench() {
    agent_ = roster_.add_agent("A", 4).id;
    for (std::uint32_t slot = 0; slot < 3; ++slot) {
      Worker& worker = roster_.add_worker({agent_, slot});
      worker.contact = Contact::kReady;
      ids_.push_back(worker.id);
    }
  }

  // Those actions that a list in braces can hold: Action itself cannot be copied.
  using Given = std::variant<SendToWorkers, SpawnWorker, Reply, Tell, EndRun>;

  std::optional<std::string> check(std::initializer_list<Given> given, Event event = StopNow{}) {
    Actions actions;
    for (const Given& one : given) std::visit([&](const auto& action) { actions.emplace_back(action); }, one);
    return invariants_.check(event, actions, {roster_, members_, generation_, before_, after_, true});
  }

  protocol::GenerationPlan plan(Generation generation, std::vector<WorkerId> ids) const {
    protocol::GenerationPlan plan;
    plan.generation = generation;
    plan.previous = generation_;
    for (WorkerId id : ids) {
      const bool joiner = generation_ != 0 && std::find(members_.begin(), members_.end(), id) == members_.end();
      plan.members.push_back({id, static_cast<std::uint32_t>(plan.members.size()), 0, "A", {}, 32, joiner});
    }
    return plan;
  }

  static Given prepare(protocol::GenerationPlan plan) { return SendToWorkers{{}, protocol::Prepare{std::move(plan)}}; }
  static Given commit(Generation generation) { return SendToWorkers{{}, protocol::Commit{generation}}; }

  void train(Generation generation, std::vector<WorkerId> members) {
    REQUIRE_FALSE(check({prepare(plan(generation, members)), commit(generation)}));
    generation_ = generation;
    members_ = std::move(members);
  }

  // Two members train, then a fence ends their generation.
  void fence(Generation fence) {
    train(1, {ids_[0], ids_[1]});
    for (WorkerId id : members_) roster_.worker(id)->take_assignment();
    REQUIRE_FALSE(check({SendToWorkers{members_, protocol::Abort{fence, "a loss"}}}));
  }
  void halted(WorkerId id, Generation fence, Step step, bool has_state = true) {
    REQUIRE_FALSE(check({}, WorkerMessage{id, protocol::WorkerHalted{fence, 1, step, has_state, true}}));
  }
  protocol::GenerationPlan recovery(Generation generation, Generation fence, Step step) const {
    protocol::GenerationPlan recovery = plan(generation, members_);
    recovery.fence = fence;
    recovery.resume_step = step;
    return recovery;
  }

  Roster roster_;
  AgentId agent_;
  std::vector<WorkerId> ids_;
  Invariants invariants_;
  std::vector<WorkerId> members_;
  Generation generation_ = 0;
  Phase before_ = Phase::kStarting;
  Phase after_ = Phase::kStarting;
};

}  // namespace

TEST_CASE("a proper first generation breaks nothing") {
  Bench bench;
  bench.train(1, {bench.ids_[0], bench.ids_[1]});
  CHECK_FALSE(bench.check({}));
}

TEST_CASE("plan numbers may skip, but only rise") {
  Bench bench;
  const SendToWorkers cancel{{}, protocol::Cancel{3}};
  CHECK_FALSE(bench.check({Bench::prepare(bench.plan(3, {bench.ids_[0]})), cancel}));
  CHECK(bench.check({Bench::prepare(bench.plan(2, {bench.ids_[0]}))}));
}

TEST_CASE("a plan number is issued once") {
  Bench bench;
  const SendToWorkers cancel{{}, protocol::Cancel{1}};
  CHECK_FALSE(bench.check({Bench::prepare(bench.plan(1, {bench.ids_[0]})), cancel}));
  CHECK(bench.check({Bench::prepare(bench.plan(1, {bench.ids_[0]}))}));
}

TEST_CASE("two plans are never open at once") {
  Bench bench;
  CHECK_FALSE(bench.check({Bench::prepare(bench.plan(1, {bench.ids_[0]}))}));
  CHECK(bench.check({Bench::prepare(bench.plan(2, {bench.ids_[0]}))}));
}

TEST_CASE("ranks are dense and members are distinct") {
  Bench bench;
  auto gap = bench.plan(1, {bench.ids_[0], bench.ids_[1]});
  gap.members[1].rank = 2;
  CHECK(bench.check({Bench::prepare(gap)}));
  Bench other;
  CHECK(other.check({Bench::prepare(other.plan(1, {other.ids_[0], other.ids_[0]}))}));
}

TEST_CASE("every member of a plan is alive and ready") {
  Bench bench;
  bench.roster_.worker(bench.ids_[1])->order_end(EndOrder::kStop);
  CHECK(bench.check({Bench::prepare(bench.plan(1, {bench.ids_[1]}))}));
  Bench other;
  other.roster_.worker(other.ids_[1])->contact = Contact::kHello;
  CHECK(other.check({Bench::prepare(other.plan(1, {other.ids_[1]}))}));
}

TEST_CASE("a commit needs an open plan") {
  Bench bench;
  CHECK(bench.check({Bench::commit(1)}));
}

TEST_CASE("a plan follows the generation that trains") {
  Bench bench;
  bench.train(1, {bench.ids_[0]});
  auto stale = bench.plan(2, {bench.ids_[0]});
  stale.previous = 0;
  CHECK(bench.check({Bench::prepare(stale)}));
}

TEST_CASE("donors survive") {
  Bench bench;
  bench.train(1, {bench.ids_[0]});
  auto plan = bench.plan(2, {bench.ids_[0], bench.ids_[1]});
  plan.donors = {bench.ids_[1]};
  CHECK(bench.check({Bench::prepare(plan)}));
}

TEST_CASE("a slot holds one member, and two workers at most") {
  Bench bench;
  const WorkerId beside = bench.roster_.add_worker({bench.agent_, 1}).id;
  bench.roster_.worker(beside)->contact = Contact::kReady;
  CHECK(bench.check({Bench::prepare(bench.plan(1, {bench.ids_[0], bench.ids_[1], beside}))}));
  Bench other;
  other.roster_.add_worker({other.agent_, 1});
  CHECK_FALSE(other.check({}));
  other.roster_.add_worker({other.agent_, 1});
  CHECK(other.check({}));
}

TEST_CASE("each request gets exactly one reply") {
  Bench bench;
  CHECK(bench.check({}, Resize{7, 2, ""}));
  CHECK_FALSE(bench.check({Reply{7, true, ""}}, Resize{7, 2, ""}));
  CHECK(bench.check({Reply{7, true, ""}, Reply{7, false, ""}}, Resize{7, 2, ""}));
  CHECK(bench.check({Reply{8, true, ""}}, Resize{7, 2, ""}));
  CHECK(bench.check({Reply{1, true, ""}}));
  CHECK_FALSE(bench.check({}, Stop{0, StopCause::kUser}));
}

TEST_CASE("worker ids are never used again") {
  Bench bench;
  CHECK_FALSE(bench.check({SpawnWorker{WorkerId{5}, bench.agent_, "A", 0}}));
  CHECK(bench.check({SpawnWorker{WorkerId{5}, bench.agent_, "A", 0}}));
}

TEST_CASE("nothing follows the end of the run") {
  Bench bench;
  CHECK(bench.check({EndRun{}, Tell{}}));
}

TEST_CASE("phases follow their table") {
  Bench bench;
  bench.before_ = Phase::kEnding;
  bench.after_ = Phase::kTraining;
  CHECK(bench.check({}));
}

TEST_CASE("a recovery of workers at the same step breaks no invariant") {
  Bench bench;
  bench.fence(2);
  bench.halted(bench.ids_[0], 2, 7);
  bench.halted(bench.ids_[1], 2, 7);
  CHECK_FALSE(bench.check({Bench::prepare(bench.recovery(3, 2, 7)), Bench::commit(3)}));
}

TEST_CASE("fences rise, and end what is open before them") {
  Bench bench;
  bench.fence(2);
  CHECK(bench.check({SendToWorkers{{}, protocol::Abort{1, ""}}}));
  Bench other;
  other.train(1, {other.ids_[0]});
  CHECK(other.check({Bench::prepare(other.plan(2, {other.ids_[0]})), SendToWorkers{{}, protocol::Abort{3, ""}}}));
}

TEST_CASE("nothing is planned before all have halted") {
  Bench bench;
  bench.fence(2);
  bench.halted(bench.ids_[0], 2, 7);
  CHECK(bench.check({Bench::prepare(bench.recovery(3, 2, 7))}));
}

TEST_CASE("a plan after a fence answers it") {
  Bench bench;
  bench.fence(2);
  bench.halted(bench.ids_[0], 2, 7);
  bench.halted(bench.ids_[1], 2, 7);
  CHECK(bench.check({Bench::prepare(bench.plan(3, bench.members_))}));
}

TEST_CASE("a worker that continues with its own state is at the resume step") {
  Bench bench;
  bench.fence(2);
  bench.halted(bench.ids_[0], 2, 7);
  bench.halted(bench.ids_[1], 2, 6);
  CHECK(bench.check({Bench::prepare(bench.recovery(3, 2, 7))}));
}

TEST_CASE("a donor of a recovery holds the state") {
  Bench bench;
  bench.fence(2);
  bench.halted(bench.ids_[0], 2, 7);
  bench.halted(bench.ids_[1], 2, 7, false);
  protocol::GenerationPlan plan = bench.recovery(3, 2, 7);
  plan.members[1].joiner = true;
  plan.donors = {bench.ids_[1]};
  CHECK(bench.check({Bench::prepare(plan)}));
}

TEST_CASE("nothing is committed behind a fence") {
  Bench bench;
  bench.fence(2);
  CHECK(bench.check({Bench::commit(2)}));
}
