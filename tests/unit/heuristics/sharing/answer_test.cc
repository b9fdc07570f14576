// What a policy from outside answers: taken where it can be carried out, refused with a sentence where not.
#include <doctest/doctest.h>

#include "heuristics/sharing/grants.h"
#include "tests/unit/heuristics/sharing/sharing_jobs.h"

namespace elastictrain::heuristics::sharing {
namespace {

// Three jobs on 8 slots: 0 holds 4, 1 holds 2 and is faster on up to 2, 2 waits.
struct Scene {
  Scene() {
    trace = trace_of({job_of(100, linear_curve(8)), job_of(100, linear_curve(2)), job_of(100, linear_curve(8))});
    view = view_of(trace, 8);
    view.now_s = 100;
    view.jobs[0].held = 4;
    view.jobs[1].held = 2;
  }
  Decision decide(std::vector<Answer::Job> jobs) const { return decision_of({std::move(jobs), {}}, view); }
  std::string problem(std::vector<Answer::Job> jobs) const { return decide(std::move(jobs)).problem; }

  cluster::Trace trace;
  View view;
};

using Slots = std::vector<double>;

TEST_CASE("an answer gives each job its slots and its reason") {
  const Decision decision = Scene().decide({{2, 3, {}, "it is its turn"}, {0, 4, {}, {}}, {1, 0, {}, {}}});
  CHECK(decision.problem.empty());
  CHECK(slots_of(decision) == Slots{4, 0, 3});
  CHECK(decision.reasons == std::vector<std::string>{"", "", "it is its turn"});
  CHECK(decision.grants[2].why == Why::kSaid);
  CHECK(decision.again_s == kNever);
}

TEST_CASE("a job that is not named keeps what it holds, as far as the others leave it") {
  CHECK(slots_of(Scene().decide({})) == Slots{4, 2, 0});
  CHECK(slots_of(Scene().decide({{2, {}, {}, {}}})) == Slots{4, 2, 0});
  CHECK(slots_of(Scene().decide({{2, 5, {}, {}}})) == Slots{3, 0, 5});
  Scene fewer;  // a host was lost
  fewer.view.slots = 3;
  CHECK(slots_of(fewer.decide({})) == Slots{3, 0, 0});
  CHECK(fewer.problem({}).empty());
}

TEST_CASE("a job gets no more than it can use") {
  CHECK(slots_of(Scene().decide({{0, 1, {}, {}}, {1, 7, {}, {}}})) == Slots{1, 2, 0});
}

TEST_CASE("what cannot be is refused with a sentence") {
  const Scene scene;
  CHECK(scene.problem({{7, 1, {}, {}}}) == "there is no job 7 in the view");
  CHECK(scene.problem({{0, 1, {}, {}}, {0, 2, {}, {}}}) == "job 0 is there twice");
  CHECK(scene.problem({{0, 9, {}, {}}}) == "job 0 is given 9 slots, and there are 8");
  CHECK(scene.problem({{0, 4'000'000'000, {}, {}}}) == "job 0 is given 4000000000 slots, and there are 8");
  CHECK(scene.problem({{0, 6, {}, {}}, {2, 6, {}, {}}}) == "more slots are given than the 8 that there are");
}

TEST_CASE("a job shares the slots of another one where both may") {
  Scene scene;
  scene.view.jobs[0].packs = scene.view.jobs[2].packs = true;
  const Decision shared = scene.decide({{0, 4, {}, {}}, {2, 4, 0, {}}});
  CHECK(shared.problem.empty());
  CHECK(shared.grants[2].beside == 0);
  CHECK(scene.problem({{0, 4, {}, {}}, {1, 2, 0, {}}}) == "job 1 cannot share the slots of job 0");
  CHECK(scene.problem({{0, 4, {}, {}}, {2, 3, 0, {}}}) == "job 2 cannot share the slots of job 0");
  CHECK(scene.problem({{2, 4, 2, {}}}) == "job 2 cannot share the slots of job 2");
  CHECK(scene.problem({{2, 4, 9, {}}}) == "job 2 cannot share the slots of job 9");
  CHECK(scene.problem({{0, 4, 2, {}}, {2, 4, 0, {}}}) == "job 0 cannot share the slots of job 2");
  scene.view.jobs[0].packs = false;
  CHECK(scene.problem({{0, 4, {}, {}}, {2, 4, 0, {}}}) == "job 2 may not share slots with job 0");
  // A pair that is not named stays while its host does.
  scene.view.jobs[0].packs = true;
  scene.view.jobs[2].held = 4;
  scene.view.jobs[2].beside = 0;
  CHECK(scene.decide({}).grants[2].beside == 0);
  CHECK(slots_of(scene.decide({{0, 2, {}, {}}})) == Slots{2, 2, 0});
  CHECK(scene.problem({{0, 2, {}, {}}}).empty());
}

TEST_CASE("the next decision lies in the future, and not too near") {
  const Scene scene;
  CHECK(decision_of({{}, 107}, scene.view).again_s == 107);
  CHECK(decision_of({{}, 100.0001}, scene.view).again_s == 100 + kSoonestAgain_s);
  CHECK(decision_of({{}, 100}, scene.view).problem == "again_s must be later than now_s");
  CHECK(decision_of({{}, kUnknown}, scene.view).problem == "again_s must be later than now_s");
}

}  // namespace
}  // namespace elastictrain::heuristics::sharing
