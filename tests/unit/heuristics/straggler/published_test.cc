#include "heuristics/straggler/published.h"

#include <doctest/doctest.h>

#include <vector>

namespace elastictrain::heuristics {
namespace {

// One view of workers on one host with equal shares, from their compute times.
JobView view_of(const std::vector<double>& compute_s, std::uint32_t share = 32) {
  JobView job;
  for (std::uint32_t rank = 0; rank < compute_s.size(); ++rank) {
    WorkerView& member = job.members.emplace_back();
    member.id = 100 + rank;
    member.rank = rank;
    member.share = share;
    member.steps = 1;
    member.compute_s = compute_s[rank];
  }
  return job;
}

// The first view, from 1, in which a worker is reported; 0: none within 50.
int first_named(Detector& detector, const std::vector<double>& compute_s) {
  for (int view = 1; view <= 50; ++view) {
    if (!detector.observe(view_of(compute_s), view).empty()) return view;
  }
  return 0;
}

TEST_CASE("ewma: half the speed from 1 is below 0.8 at the fifth batch, three quarters at the sixteenth") {
  // e = 0.1 f + 0.9 e: 0.95, 0.905, 0.8645, 0.82805, 0.795245.
  double e = 1;
  for (int i = 0; i < 5; ++i) e = next_ewma(e, 0.5, 0.1, false);
  CHECK(e == doctest::Approx(0.795245));
  // A first view at full speed initialises with 1; then the median of four is 1 and one has half the speed.
  const auto half = make_ewma_detector({});
  half->observe(view_of({1, 1, 1, 1}), 0);
  CHECK(first_named(*half, {1, 1, 1, 2}) == 5);
  const auto three_quarters = make_ewma_detector({});
  three_quarters->observe(view_of({1, 1, 1, 1}), 0);
  CHECK(first_named(*three_quarters, {1, 1, 1, 1 / 0.75}) == 16);
}

TEST_CASE("ewma: the first sample initialises, and rank 0 is exempt by default") {
  CHECK(next_ewma(1, 0.5, 0.1, true) == 0.5);
  const auto exempt = make_ewma_detector({});
  CHECK(first_named(*exempt, {2, 1, 1, 1}) == 0);
  const auto strict = make_ewma_detector({.rank_0_exempt = false});
  const auto slow = strict->observe(view_of({2, 1, 1, 1}), 1);
  REQUIRE(slow.size() == 1);
  CHECK(slow[0].worker == 100);
  CHECK(slow[0].slowdown == doctest::Approx(2));
  CHECK(slow[0].because == "average of its relative speed is 0.500 < 0.8");
}

TEST_CASE("ewma: uneven shares are no slowness") {
  const auto detector = make_ewma_detector({});
  JobView job = view_of({1, 1, 1, 2});
  job.members[3].share = 64;
  CHECK(detector->observe(job, 1).empty());
}

TEST_CASE("nvidia: scores of kernels are weighted by the time spent in them") {
  // (0.8 * 100 * 1.25 + 1.0 * 50 * 2) / (125 + 100) = 200/225.
  CHECK(section_score({{1, 1.25, 1.25, 100}, {2, 2, 2, 50}}) == doctest::Approx(0.8889).epsilon(0.0001));
  CHECK(section_score({}) == 1);
}

TEST_CASE("nvidia: slow against the best rank, or against the own best") {
  const auto relative = make_nvidia_detector({.limit = 0.75, .window = 5});
  CHECK(first_named(*relative, {1, 1, 1, 1.32}) == 0);  // 0.758
  CHECK(first_named(*relative, {1, 1, 1, 1.36}) == 5);  // 0.735, at the next report
  const auto individual = make_nvidia_detector({.limit = 0.75, .window = 5});
  CHECK(first_named(*individual, {1, 1}) == 0);
  // All become slower together: no rank is behind the best one, each is behind its own best.
  CHECK(first_named(*individual, {1.5, 1.5}) == 5);
}

TEST_CASE("dlrover: more than twice the median, in both of two observations") {
  const auto detector = make_dlrover_detector(2);
  CHECK(first_named(*detector, {1, 1, 1, 1.9}) == 0);
  CHECK(detector->observe(view_of({1, 1, 1, 2.1}), 51).empty());  // the observation before was 1.9
  const auto slow = detector->observe(view_of({1, 1, 1, 2.2}), 52);
  REQUIRE(slow.size() == 1);
  CHECK(slow[0].rank == 3);
  CHECK(slow[0].slowdown == doctest::Approx(2.1));
}

TEST_CASE("medians") {
  std::vector<double> four{4, 1, 3, 2};
  CHECK(lower_median(four) == 2);
  CHECK(middle_median(four) == 2.5);
  std::vector<double> three{3, 1, 2};
  CHECK(lower_median(three) == 2);
  CHECK(middle_median(three) == 2);
  std::vector<double> none;
  CHECK(lower_median(none) == 0);
}

}  // namespace
}  // namespace elastictrain::heuristics
