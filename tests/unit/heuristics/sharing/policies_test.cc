// The worked examples of the policies.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "heuristics/sharing/fill.h"
#include "heuristics/sharing/policy.h"
#include "heuristics/sharing/service_history.h"
#include "tests/unit/heuristics/sharing/sharing_jobs.h"

namespace elastictrain::heuristics::sharing {
namespace {

using Slots = std::vector<double>;

cluster::Trace three_jobs() {
  return trace_of({job_of(10, curve_of({1, 1.8, 2.3, 2.6}), 4), job_of(20, curve_of({1, 1.9, 2.7, 3.4}), 4),
                   job_of(60, curve_of({1, 1.2, 1.3, 1.35}), 4)});
}

TEST_CASE("a curve is made monotone, interpolated by throughput, and ends where it is largest") {
  const Curve curve({{1, 10}, {2, 16}, {4, 14}, {8, 20}, {16, 18}});
  CHECK(curve.as_is(3) == doctest::Approx(15));
  CHECK(curve.as_is(16) == doctest::Approx(18));
  CHECK(curve.as_is(99) == doctest::Approx(18));
  CHECK(curve.cap() == 8);
  CHECK(curve.best(4) == doctest::Approx(16));
  CHECK(curve.best(6) == doctest::Approx(17));
  CHECK(curve.best_at(0.5) == doctest::Approx(5));
  CHECK(curve.best_at(64) == doctest::Approx(20));
  CHECK(linear_curve(100)->cap() == kMaxElasticSlots);
  CHECK_FALSE(Curve({{8, 1}}).elastic());
}

TEST_CASE("the corners of a curve: each count where it is concave, the end of a step otherwise") {
  const auto corners = [](const Curve& curve) {
    std::vector<std::uint32_t> next;
    for (std::uint32_t slots = 0; slots < curve.cap(); ++slots) next.push_back(curve.next_corner(slots));
    return next;
  };
  using Corners = std::vector<std::uint32_t>;
  CHECK(corners(*curve_of({1, 1.8, 2.3, 2.6})) == Corners{1, 2, 3, 4});
  CHECK(corners(*linear_curve(4)) == Corners{1, 2, 3, 4});
  CHECK(corners(*curve_of({1, 1, 1, 4})) == Corners{1, 4, 4, 4});
  CHECK(corners(*curve_of({0.5, 0.5, 3, 3, 4, 8})) == Corners{6, 6, 3, 6, 6, 6});
  CHECK(corners(*curve_of({0.5, 0.5, 6, 6, 6, 8})) == Corners{3, 3, 3, 6, 6, 6});
}

TEST_CASE("AFS-L grants A, B, C, A, B, B in its worked example, by scan and by bracket") {
  const auto trace = three_jobs();
  CHECK(slots_by(*make_afs_l(), view_of(trace, 6)) == Slots{2, 3, 1});
  CHECK(slots_by(*make_afs_l({.scan = true}), view_of(trace, 6)) == Slots{2, 3, 1});
}

TEST_CASE("the mean completion times of the worked example") {
  const auto trace = three_jobs();
  CHECK(mean_jct_s(trace, "afs-l", 6) == doctest::Approx(19.54).epsilon(0.0005));
  CHECK(mean_jct_s(trace, "max-min", 6) == doctest::Approx(19.93).epsilon(0.0005));
  CHECK(mean_jct_s(trace, "optimus", 6) == doctest::Approx(20.38).epsilon(0.0005));
  CHECK(mean_jct_s(trace, "srtf", 6) == doctest::Approx(22.58).epsilon(0.0005));
}

TEST_CASE("an exact tie of gains goes to the shorter job, in the form of the authors' simulator to the longer") {
  const auto view = view_of(trace_of({job_of(10, linear_curve(8)), job_of(20, linear_curve(8))}), 4);
  const auto trace = trace_of({job_of(10, linear_curve(8)), job_of(20, linear_curve(8))});
  CHECK(slots_by(*make_afs_l(), view_of(trace, 4)) == Slots{3, 1});
  CHECK(slots_by(*make_afs_l({.one_each_first = true}), view_of(trace, 4)) == Slots{2, 2});
}

TEST_CASE("the rule of AFS-L is intransitive: the order of jobs decides, and it is fixed") {
  const auto a = job_of(10, curve_of({1, 1.4})), b = job_of(20, curve_of({1, 1.5})), c = job_of(30, curve_of({1, 1.7}));
  const auto abc = trace_of({a, b, c}), bca = trace_of({b, c, a});
  for (const bool scan : {false, true}) {
    CHECK(slots_by(*make_afs_l({.scan = scan}), view_of(abc, 4)) == Slots{1, 1, 2});
    CHECK(slots_by(*make_afs_l({.scan = scan}), view_of(bca, 4)) == Slots{1, 1, 2});
  }
}

TEST_CASE("max-min fills the job with the fewest first, up to what each can use") {
  const auto trace = trace_of({job_of(1, linear_curve(2)), job_of(1, linear_curve(8)), job_of(1, linear_curve(8))});
  CHECK(slots_by(*make_max_min(0), view_of(trace, 9)) == Slots{2, 4, 3});
  CHECK(slots_by(*make_max_min(0), view_of(trace, 2)) == Slots{1, 1, 0});
  CHECK(slots_by(*make_max_min(0), view_of(trace, 100)) == Slots{2, 8, 8});
  CHECK(slots_by(*make_max_min_fluid(), view_of(trace, 9)) == Slots{2, 3.5, 3.5});
  CHECK(slots_by(*make_max_min_fluid(), view_of(trace, 2))[2] == doctest::Approx(2.0 / 3));
}

TEST_CASE("DRF: the example of its paper, 9 CPUs and 18 GB, demands of <1, 4> and <3, 1>") {
  const auto trace = trace_of({job_of(1, linear_curve(64)), job_of(1, linear_curve(64))});
  View view = view_of(trace, 1000);
  view.cpus = 9;
  view.memory_bytes = 18e9;
  view.jobs[0].cpus_per_slot = 1;
  view.jobs[0].memory_per_slot_bytes = 4e9;
  view.jobs[1].cpus_per_slot = 3;
  view.jobs[1].memory_per_slot_bytes = 1e9;
  CHECK(slots_by(*make_drf(), view) == Slots{3, 2});
}

TEST_CASE("where only slots are scarce, DRF is max-min") {
  const auto trace = trace_of({job_of(1, linear_curve(2)), job_of(1, linear_curve(8)), job_of(1, linear_curve(8))});
  CHECK(slots_by(*make_drf(), view_of(trace, 9)) == slots_by(*make_max_min(0), view_of(trace, 9)));
}

TEST_CASE("Optimus gives every job a slot before it compares gains, and damps those of young jobs if asked to") {
  const auto trace = trace_of({job_of(100, curve_of({1, 1.9})), job_of(100, curve_of({1, 1.93}))});
  CHECK(slots_by(*make_optimus(), view_of(trace, 3)) == Slots{1, 2});
  View view = view_of(trace, 3);
  view.jobs[0].running_s = 100;
  CHECK(slots_by(*make_optimus({.young_s = 50}), view) == Slots{2, 1});
}

TEST_CASE("fixed sizes: FIFO holds back what is behind, SRTF passes what does not fit") {
  const auto trace =
      trace_of({job_of(400, linear_curve(8), 4), job_of(800, linear_curve(8), 8), job_of(10, linear_curve(8), 1)});
  CHECK(slots_by(*make_fifo(), view_of(trace, 8)) == Slots{4, 0, 0});
  CHECK(slots_by(*make_srtf(), view_of(trace, 8)) == Slots{4, 0, 1});
}

TEST_CASE("SRSF multiplies the remaining time by the slots") {
  const auto trace = trace_of({job_of(40, linear_curve(8), 4), job_of(12, linear_curve(8), 1)});
  CHECK(slots_by(*make_srtf(), view_of(trace, 4)) == Slots{4, 0});
  CHECK(slots_by(*make_srsf(), view_of(trace, 4)) == Slots{0, 1});
}

TEST_CASE("Tiresias-L moves a job to the next queue once it has used a queue's limit") {
  const auto long_job = job_of(100000, linear_curve(4), 4);
  const auto trace = trace_of({long_job, job_of(100, linear_curve(4), 4, 10)});
  cluster::Options options;
  options.slots = 4;
  const auto outcome = outcome_of(trace, "tiresias-l", options);
  CHECK(outcome.jobs[1].first_start_s == doctest::Approx(813));  // ceil(3250 / 4)
  CHECK(outcome.jobs[0].suspensions == 1);
}

TEST_CASE("the index of a history is the chance to end over the service expected until then") {
  ServiceHistory history;
  for (const double service : {10, 20, 40}) history.add(service);
  CHECK(history.index(0, 15) == doctest::Approx((1.0 / 3) / ((10 + 15 + 15) / 3.0)));
  CHECK(history.index(10, 15) == doctest::Approx((1.0 / 2) / ((10 + 15) / 2.0)));
  CHECK(history.index(40, 15) == 0);
  CHECK(history.expected_price(20, 5) == doctest::Approx(20));
}

TEST_CASE("Gandiva gives all jobs their turn, and lends idle slots up to a server's while nobody waits") {
  const auto trace = trace_of({job_of(240, linear_curve(64), 4), job_of(240, linear_curve(64), 4)});
  cluster::Options options;
  options.slots = 4;
  const auto outcome = outcome_of(trace, "gandiva", options);
  CHECK(outcome.jobs[1].first_start_s == doctest::Approx(60));
  CHECK(slots_by(*make_gandiva(60), view_of(trace, 14)) == Slots{7, 7});
  CHECK(slots_by(*make_gandiva(60), view_of(trace, 64)) == Slots{8, 8});
}

TEST_CASE("with slices, max-min lets jobs take turns where they are more than the slots") {
  const auto trace = trace_of({job_of(300, linear_curve(1)), job_of(300, linear_curve(1))});
  cluster::Options options;
  options.slots = 1;
  options.settings.slice_s = 100;
  CHECK(outcome_of(trace, "max-min", options).jobs[1].first_start_s == doctest::Approx(100));
  options.settings.slice_s = 0;
  CHECK(outcome_of(trace, "max-min", options).jobs[1].first_start_s == doctest::Approx(300));
}

TEST_CASE("a turn that a job was given and could not take is still its turn") {
  const auto policy = find_sharing_policy("max-min")->make({10});
  const auto state = policy->initial_state();
  Rng rng(1);
  View view = view_of(trace_of({job_of(1000, linear_curve(1)), job_of(1000, linear_curve(1))}), 1);
  const auto curve = linear_curve(1);
  for (JobView& job : view.jobs) job.curve = curve.get();
  const auto who = [&](double now_s, bool first_holds) {
    view.now_s = now_s;
    view.jobs[0].held = first_holds ? 1 : 0;
    if (first_holds) view.jobs[0].first_start_s = 0;
    Decision decision;
    decision.grants.resize(2);
    policy->decide(view, *state, rng, decision);
    return decision.grants[0].slots > 0 ? 0 : 1;
  };
  CHECK(who(0, false) == 0);
  CHECK(who(10, true) == 1);
  CHECK(who(12, true) == 1);  // the first one still holds the slot
}

TEST_CASE("the turns of AFS-P are of 2 h as published, or of the slices that are asked for") {
  const auto trace = trace_of({job_of(9000, linear_curve(1)), job_of(300, linear_curve(1))});
  cluster::Options options;
  options.slots = 1;
  CHECK(outcome_of(trace, "afs-p", options).jobs[1].first_start_s == doctest::Approx(7200));
  options.settings.slice_s = 100;
  CHECK(outcome_of(trace, "afs-p", options).jobs[1].first_start_s == doctest::Approx(100));
}

TEST_CASE("Themis gives the next slot to the job with the largest finish-time ratio") {
  const auto trace = trace_of({job_of(100, linear_curve(8)), job_of(100, linear_curve(8))});
  View view = view_of(trace, 4);
  view.now_s = 100;
  view.jobs[1].arrival_s = 90;
  const auto slots = slots_by(*make_themis(), view);
  CHECK(slots[0] > slots[1]);
}

TEST_CASE("our own policy gives the shorter of two equal jobs more") {
  const auto curve = curve_of({1, 1.9, 2.7, 3.4, 4, 4.5, 4.9, 5.2});
  const auto trace = trace_of({job_of(1000, curve), job_of(10, curve)});
  const auto slots = slots_by(*make_worth(), view_of(trace, 8));
  CHECK(slots[1] > slots[0]);
  CHECK(slots[0] + slots[1] == 8);
}

TEST_CASE("our own policy serves the older of jobs that are alike first, whether their lengths are said or not") {
  const auto trace = trace_of(std::vector(8, job_of(100, linear_curve(1))));
  View view = view_of(trace, 4);
  CHECK(slots_by(*make_worth(), view) == Slots{1, 1, 1, 1, 0, 0, 0, 0});
  for (JobView& job : view.jobs) job.remaining = kUnknown;
  CHECK(slots_by(*make_worth(), view) == Slots{1, 1, 1, 1, 0, 0, 0, 0});
}

TEST_CASE("our own policy goes up a step of a curve at once") {
  const auto steps = curve_of({1, 1, 1, 6, 6, 6, 6, 12});
  const auto trace = trace_of({job_of(100, steps), job_of(100, steps)});
  CHECK(slots_by(*make_worth(), view_of(trace, 8)) == Slots{8, 0});
  const auto flatter = curve_of({1, 1, 1, 6, 6, 6, 6, 7});
  const auto other = trace_of({job_of(100, flatter), job_of(100, flatter)});
  CHECK(slots_by(*make_worth(), view_of(other, 8)) == Slots{4, 4});
}

// Two starts are 20 s. Of 10 units of work the new job does 10 / (20 + 10 / k) a second on k slots: 0.33, 0.4; 0.44 on
// an equal share. Times its weight of 1.34 its first slot brings 1.01, its second 0.20; the other's bring 1.05 / 4
// each.
TEST_CASE("our own policy does not spread over the cluster what ends about as soon as workers start") {
  const auto trace = trace_of({job_of(1000, linear_curve(8)), job_of(10, linear_curve(8))});
  View view = view_of(trace, 8);
  view.jobs[0].held = 8;
  CHECK(slots_by(*make_worth(), view) == Slots{0, 8});
  for (JobView& job : view.jobs) job.start_s = 10;
  CHECK(slots_by(*make_worth(), view) == Slots{7, 1});
}

TEST_CASE("our own policy serves a job of which no work is left") {
  const auto trace = trace_of({job_of(1000, linear_curve(8)), job_of(0, linear_curve(8))});
  View view = view_of(trace, 8);
  view.jobs[0].held = 8;
  for (JobView& job : view.jobs) job.start_s = 10;
  CHECK(slots_by(*make_worth(), view) == Slots{7, 1});
}

TEST_CASE("our own policy gives no slots to a job that ends before workers would train there") {
  const auto trace = trace_of({job_of(30, linear_curve(8)), job_of(1000, linear_curve(8))});
  View view = view_of(trace, 8);
  for (JobView& job : view.jobs) job.held = 4;
  CHECK(slots_by(*make_worth(), view) == Slots{8, 0});
  for (JobView& job : view.jobs) job.start_s = 10;
  CHECK(slots_by(*make_worth(), view) == Slots{4, 4});
}

TEST_CASE("before jobs have ended, our own policy serves jobs in turns that double, the older first") {
  const auto trace = trace_of(std::vector(2, job_of(100000, linear_curve(1))));
  View view = view_of(trace, 1);
  const auto slots_after = [&](double older_s, double younger_s) {
    for (JobView& job : view.jobs) job.remaining = kUnknown;
    view.jobs[0].done = older_s;
    view.jobs[1].done = younger_s;
    return slots_by(*make_worth(), view);
  };
  CHECK(slots_after(5000, 3700) == Slots{1, 0});  // both in the second level, of 7,200 s
  CHECK(slots_after(5000, 3000) == Slots{0, 1});
  for (JobView& job : view.jobs) job.start_s = 10;  // levels of 200, 400, 800 s
  CHECK(slots_after(150, 0) == Slots{1, 0});
  CHECK(slots_after(250, 50) == Slots{0, 1});
  CHECK(slots_after(390, 210) == Slots{1, 0});
}

TEST_CASE("with fewer slots than jobs, Themis serves those with the largest ratios") {
  const auto trace =
      trace_of({job_of(100, linear_curve(8)), job_of(100, linear_curve(8)), job_of(100, linear_curve(8))});
  View view = view_of(trace, 2);
  view.now_s = 1000;
  view.jobs[0].arrival_s = 990;
  CHECK(slots_by(*make_themis(), view) == Slots{0, 1, 1});
}

TEST_CASE("Gandiva's queue goes round") {
  const auto job = job_of(180, linear_curve(1));
  const auto trace = trace_of({job, job, job});
  cluster::Options options;
  options.slots = 1;
  const auto outcome = outcome_of(trace, "gandiva", options);
  CHECK(outcome.jobs[1].first_start_s == doctest::Approx(60));
  CHECK(outcome.jobs[2].first_start_s == doctest::Approx(120));
  CHECK(outcome.jobs[0].completion_s == doctest::Approx(420));
}

// What Pollux's fitness is the inverse of, but for constants: as its header says, written down once more.
double pollux_cost(const View& view, const Slots& slots) {
  double sum = 0;
  const double fair = std::ceil(static_cast<double>(view.slots) / static_cast<double>(view.jobs.size()));
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const JobView& job = view.jobs[i];
    const double age_s = view.now_s - job.arrival_s;
    const double penalty = job.started() && slots[i] != job.held ? age_s / (age_s + 30) : 1;
    const double speedup = job.curve->best_at(slots[i]) / job.curve->best_at(std::min<double>(fair, job.curve->cap()));
    sum += 1 / (speedup * penalty / 4 + 1e-3);
  }
  return sum;
}

TEST_CASE("Pollux in its worked example: by goodput against a fair share, and no change that does not pay") {
  const auto trace = trace_of({job_of(1, linear_curve(8)), job_of(1, curve_of({1, 1.2, 1.3, 1.35}))});
  View view = view_of(trace, 4);
  // A fair share is 2 slots: 3 and 1 are speedups of 1.5 and 0.8333.
  CHECK(pollux_cost(view, {3, 1}) == doctest::Approx(1 / 0.376 + 1 / 0.2093333));
  CHECK(pollux_cost(view, {2, 2}) == doctest::Approx(2 / 0.251));
  CHECK(slots_by(*make_pollux(), view) == Slots{3, 1});
  view.now_s = 70;
  for (JobView& job : view.jobs) {
    job.first_start_s = 0;
    job.held = 2;
  }
  CHECK(pollux_cost(view, {3, 1}) == doctest::Approx(1 / 0.2635 + 1 / 0.1468333));  // 70 of 100 s
  CHECK(slots_by(*make_pollux(), view) == Slots{2, 2});
  view.now_s = 10'000;
  CHECK(slots_by(*make_pollux(), view) == Slots{3, 1});
}

TEST_CASE("under Pollux what a job has cost by changes holds the next one back") {
  const auto trace = trace_of({job_of(1, linear_curve(8)), job_of(1, curve_of({1, 1.2, 1.3, 1.35}))});
  const auto policy = make_pollux();
  const auto state = policy->initial_state();
  View view = view_of(trace, 4);
  Rng rng(1);
  std::vector<Slots> taken;
  for (int decision = 0; decision < 4; ++decision) {
    view.now_s = 600;
    for (std::size_t i = 0; i < 2; ++i) {
      view.jobs[i].first_start_s = 0;
      view.jobs[i].held = 2;  // whatever was decided was undone: the next decision is a change again
    }
    Decision decided;
    decided.grants.resize(2);
    policy->decide(view, *state, rng, decided);
    taken.push_back({decided.grants[0].slots, decided.grants[1].slots});
    CHECK(decided.again_s == 660);
  }
  // Penalties of 600/630, then 570/630.
  CHECK(taken == std::vector<Slots>{{3, 1}, {2, 2}, {2, 2}, {2, 2}});
}

TEST_CASE("Pollux's search finds the best of all possibilities, and where there are too many comes close to it") {
  std::mt19937_64 rng(5);
  const auto below = [&](std::uint64_t end) { return rng() % end; };
  int best_by_price = 0;
  constexpr int kCases = 300;
  for (int number = 0; number < kCases; ++number) {
    std::vector<cluster::TraceJob> jobs;
    for (int i = 0; i < 3; ++i) {
      std::vector<double> rates = {1};
      for (int size = 1; size < 6; ++size) rates.push_back(rates.back() + 0.1 * static_cast<double>(below(10)));
      jobs.push_back(job_of(1, curve_of(rates)));
    }
    const auto trace = trace_of(jobs);
    const auto slots = static_cast<std::uint32_t>(3 + below(7));
    View view = view_of(trace, slots);
    view.now_s = 1 + static_cast<double>(below(500));
    for (JobView& job : view.jobs) {
      if (below(3) == 0) continue;
      job.first_start_s = 0;
      job.held = static_cast<double>(below(3));
    }
    double best = kNever;
    const std::uint32_t most[] = {most_slots(view, view.jobs[0]), most_slots(view, view.jobs[1]),
                                  most_slots(view, view.jobs[2])};
    for (std::uint32_t a = 0; a <= most[0]; ++a) {
      for (std::uint32_t b = 0; b <= most[1] && a + b <= slots; ++b) {
        for (std::uint32_t c = 0; c <= most[2] && a + b + c <= slots; ++c) {
          best = std::min(best, pollux_cost(view, {double(a), double(b), double(c)}));
        }
      }
    }
    CHECK(pollux_cost(view, slots_by(*make_pollux(), view)) == doctest::Approx(best).epsilon(1e-9));
    const double by_price = pollux_cost(view, slots_by(*make_pollux({.exact_up_to = 0}), view));
    CHECK(by_price <= 1.06 * best);
    if (by_price <= best * (1 + 1e-9)) ++best_by_price;
  }
  CHECK(best_by_price >= kCases * 9 / 10);
}

}  // namespace
}  // namespace elastictrain::heuristics::sharing
