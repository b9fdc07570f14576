// Two jobs in the same slots under Gandiva's policy: tried, measured, kept or undone.
#include <doctest/doctest.h>

#include "heuristics/sharing/gandiva.h"
#include "heuristics/sharing/policy.h"
#include "tests/unit/heuristics/sharing/sharing_jobs.h"

namespace elastictrain::heuristics::sharing {
namespace {

// One slot, slices of 60 s, jobs of 10 samples a second alone. Carries out what is decided at once.
class OneSlot {
 public:
  explicit OneSlot(std::size_t jobs) : policy_(make_gandiva(60, true)), state_(policy_->initial_state()) {
    std::vector<cluster::TraceJob> list;
    for (std::size_t i = 0; i < jobs; ++i) list.push_back(job_of(1e6, curve_));
    view_ = view_of(trace_of(std::move(list)), 1);
    for (JobView& job : view_.jobs) {
      job.packs = true;
      job.alone_rate = 10;
    }
  }

  const Decision& decide(double now_s) {
    view_.now_s = now_s;
    decision_ = {};
    decision_.grants.resize(view_.jobs.size());
    policy_->decide(view_, *state_, rng_, decision_);
    for (std::size_t place = 0; place < view_.jobs.size(); ++place) {
      view_.jobs[place].held = decision_.grants[place].slots;
      view_.jobs[place].beside = decision_.grants[place].beside;
    }
    return decision_;
  }

  void measure(std::size_t job, double rate, std::uint32_t views) {
    view_.jobs[job].packed_rate = rate;
    view_.jobs[job].packed_views = views;
  }
  JobView& job(std::size_t place) { return view_.jobs[place]; }

 private:
  std::shared_ptr<const Curve> curve_ = linear_curve(1);
  std::unique_ptr<SharingPolicy> policy_;
  std::unique_ptr<State> state_;
  Rng rng_{1};
  View view_;
  Decision decision_;
};

using Slots = std::vector<double>;

TEST_CASE("a pair that does 1.5 of one alone is kept after three looks, and nobody waits") {
  OneSlot one(2);
  CHECK(slots_of(one.decide(0)) == Slots{1, 0});
  const Decision tried = one.decide(15);
  CHECK(slots_of(tried) == Slots{1, 1});
  CHECK(tried.grants[1].beside == 0);
  CHECK(tried.grants[1].why == Why::kTried);
  CHECK(tried.again_s == 30);
  for (std::uint32_t look = 1; look <= kLooks; ++look) {
    one.measure(0, 8, look * kLookViews);
    one.measure(1, 7, look * kLookViews);
    const Grant& guest = one.decide(15 + 15.0 * look).grants[1];
    CHECK(guest.number == doctest::Approx(0.8 + 0.7));
    CHECK(guest.why == (look < kLooks ? Why::kTried : Why::kKept));
  }
  CHECK(slots_of(one.decide(120)) == Slots{1, 1});
}

TEST_CASE("a pair that does 0.7 of one alone is undone at the second look, and not tried again") {
  OneSlot one(2);
  one.decide(0);
  one.decide(15);
  one.measure(0, 4, 3);
  one.measure(1, 3, 3);
  CHECK(slots_of(one.decide(30)) == Slots{1, 1});
  one.measure(0, 4, 6);
  one.measure(1, 3, 5);
  CHECK(slots_of(one.decide(40)) == Slots{1, 1});  // a look needs three new measurements of both
  one.measure(1, 3, 6);
  const Decision undone = one.decide(45);
  CHECK(slots_of(undone) == Slots{1, 0});
  CHECK(undone.grants[1].why == Why::kUndone);
  CHECK(undone.grants[1].number == doctest::Approx(0.7));
  for (const double now_s : {50.0, 60.0, 75.0, 120.0, 135.0}) {
    const Slots slots = slots_of(one.decide(now_s));
    CHECK(slots[0] + slots[1] == 1);
  }
}

TEST_CASE("a job that has lost with three others stays alone") {
  OneSlot one(5);
  std::size_t tries = 0;
  std::uint32_t views = 0;
  for (double now_s = 0; now_s < 3000; now_s += 15) {
    views += kLookViews;
    for (std::size_t job = 0; job < 5; ++job) one.measure(job, 3, views);
    const Decision decision = one.decide(now_s);
    for (const Grant& grant : decision.grants) tries += grant.beside != kNoJob && grant.looks == 0 ? 1 : 0;
  }
  CHECK(tries == 5 * kTries / 2);
}

TEST_CASE("one bad look among good ones is noise") {
  OneSlot one(2);
  one.decide(0);
  one.decide(15);
  std::uint32_t views = 0;
  for (const double rate : {4.0, 8.0, 4.0, 8.0, 4.0}) {
    views += kLookViews;
    one.measure(0, rate, views);
    one.measure(1, rate, views);
    CHECK(slots_of(one.decide(15 + 5 * views)) == Slots{1, 1});
  }
}

TEST_CASE("a job is tried once it was measured alone, may share slots, and where it stands still") {
  OneSlot one(2);
  one.job(1).alone_rate = kUnknown;
  one.decide(0);
  CHECK(slots_of(one.decide(15)) == Slots{1, 0});
  one.job(1).alone_rate = 10;
  one.job(1).packs = false;
  CHECK(slots_of(one.decide(16)) == Slots{1, 0});
  one.job(1).packs = true;
  one.job(1).only_beside = kNoJob;
  CHECK(slots_of(one.decide(17)) == Slots{1, 0});
  one.job(1).only_beside = 0;
  CHECK(slots_of(one.decide(18)) == Slots{1, 1});
}

TEST_CASE("a third job takes its turn against both of a pair, which come back together") {
  OneSlot one(3);
  one.decide(0);
  CHECK(slots_of(one.decide(15)) == Slots{1, 1, 0});
  CHECK(slots_of(one.decide(60)) == Slots{0, 0, 1});
  CHECK(slots_of(one.decide(75)) == Slots{0, 0, 1});
  const Decision back = one.decide(120);
  CHECK(slots_of(back) == Slots{1, 1, 0});
  CHECK(back.grants[1].beside == 0);
}

TEST_CASE("a pair that the caller cannot place is undone") {
  OneSlot one(2);
  one.decide(0);
  one.decide(15);
  one.job(1).beside = kNoJob;
  one.job(1).held = 0;
  CHECK(slots_of(one.decide(30)) == Slots{1, 0});
  CHECK(slots_of(one.decide(45)) == Slots{1, 0});
}

TEST_CASE("a pair that was made before is taken up, as after a restart") {
  OneSlot one(2);
  one.job(0).held = one.job(1).held = 1;
  one.job(1).beside = 0;
  CHECK(slots_of(one.decide(0)) == Slots{1, 1});
}

double makespan_s(double packed_speed) {
  const auto trace = trace_of({job_of(600, linear_curve(1)), job_of(600, linear_curve(1))});
  cluster::Options options;
  options.slots = 1;
  options.settings.packs = packed_speed > 0;
  options.packed_speed = packed_speed;
  const auto outcome = outcome_of(trace, "gandiva", options);
  CHECK(outcome.problem.empty());
  return std::max(outcome.jobs[0].completion_s, outcome.jobs[1].completion_s);
}

TEST_CASE("simulated: a pair that gains ends sooner than turns, one that loses within three looks of them") {
  CHECK(makespan_s(0) == doctest::Approx(1200));
  // Both at 0.7 to 1 of their speed.
  CHECK(makespan_s(0.85) < 15 + 600 / 0.65);
  CHECK(makespan_s(0.85) > 600);
  // At 0.1 to 0.5 for three looks of 15 s at most.
  CHECK(makespan_s(0.3) > 1200);
  CHECK(makespan_s(0.3) < 1200 + 45);
}

}  // namespace
}  // namespace elastictrain::heuristics::sharing
