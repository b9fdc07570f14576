#include "heuristics/cost/cost.h"

#include <doctest/doctest.h>

#include <cmath>

#include "heuristics/autoscale/search.h"

namespace elastictrain::heuristics {
namespace {

constexpr double kHour = 3600;

JobView job_on(std::uint32_t hosts, std::uint32_t each) {
  JobView job;
  for (std::uint32_t rank = 0; rank < hosts * each; ++rank) {
    WorkerView member;
    member.host = rank / each;
    job.members.push_back(member);
  }
  return job;
}

// Algorithms A, tests: B = 1024, b = 1000, R4 = 400, R8 = 720, P = $0.1/h: t = 2.56 and 1.4222 s, cost rises by
// $0.03160; linear(100, 10800): utility rises by $10.535, so it passes; at $33.33/h it breaks even.
TEST_CASE("utility against cost gives the worked numbers") {
  const double t4 = 1024.0 / 400, t8 = 1024.0 / 720;
  CHECK(t8 == doctest::Approx(1.4222).epsilon(0.0001));
  const Utility utility = Utility::linear(100, 10800);
  const double gained = utility(1000 * t8) - utility(1000 * t4);
  CHECK(gained == doctest::Approx(10.535).epsilon(0.0001));
  const auto added = [&](double per_hour) { return 1000 * (8 * t8 - 4 * t4) * per_hour / kHour; };
  CHECK(added(0.1) == doctest::Approx(0.0316).epsilon(0.001));
  CHECK(added(33.33) == doctest::Approx(gained).epsilon(0.001));

  const JobView job;
  for (const double price : {0.1, 33.0, 34.0}) {
    const auto value = cost_objective(utility, Prices({}, job, price), 500, 1024 * 1000);
    CHECK((value(8, std::log(720)) > value(4, std::log(400))) == (gained > added(price)));
  }
}

TEST_CASE("a utility with steps is linear between its points and continues beyond them") {
  // 100 until 600 s, 40 at 1200 s, 0 when expected: 2000 s.
  const Utility utility = Utility::piecewise({{600, 100}, {1200, 40}}, 2000);
  CHECK(utility(0) == doctest::Approx(100));
  CHECK(utility(600) == doctest::Approx(100));
  CHECK(utility(900) == doctest::Approx(70));
  CHECK(utility(1600) == doctest::Approx(20));
  CHECK(utility(2400) == doctest::Approx(-20));
  // Expected before the last point: nothing is appended, the last line goes on.
  CHECK(Utility::piecewise({{600, 100}, {1200, 40}}, 1000)(1300) == doctest::Approx(30));
}

TEST_CASE("texts of utilities say what is wrong with them") {
  const auto linear = parse_utility("linear:100,10800");
  CHECK(linear.problem.empty());
  CHECK(linear.utility(0)(5400) == doctest::Approx(50));
  const auto step = parse_utility("step:100:600,40:1200");
  CHECK(step.problem.empty());
  CHECK(step.utility(2000)(900) == doctest::Approx(70));
  const auto table = parse_utility("table:60:100,600:100,660:-5");
  CHECK(table.problem.empty());
  CHECK(table.utility(2000)(630) == doctest::Approx(47.5));
  for (const char* wrong : {"", "linear", "linear:100", "linear:100,0", "linear:1,2,3", "step:", "step:5",
                            "step:5:600,6:700", "step:5:600,4:600", "cubic:1,2", "linear:a,b"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_utility(wrong).problem.empty());
  }
}

// A deadline with a grace: what a table says of its ends holds before and after them, whatever the job takes.
TEST_CASE("a utility as a table is linear between its points, and level before and after them") {
  const Utility utility = Utility::table({{60, 100}, {600, 100}, {660, -5}});
  for (const double before_s : {0.0, 59.0, 60.0, 300.0, 600.0}) CHECK(utility(before_s) == doctest::Approx(100));
  CHECK(utility(630) == doctest::Approx(47.5));
  for (const double after_s : {660.0, 661.0, 1e6}) CHECK(utility(after_s) == doctest::Approx(-5));
  CHECK(Utility::table({{10, 7}})(1e9) == doctest::Approx(7));
}

TEST_CASE("a table with a mistake is refused with the point that it is in") {
  CHECK(parse_utility("table:").problem == "a point is SECONDS:VALUE, not \"\"");
  CHECK(parse_utility("table:0:1,5").problem == "a point is SECONDS:VALUE, not \"5\"");
  CHECK(parse_utility("table:0:100,60:50,60:0").problem ==
        "point 3: its seconds must be more than those of the one before");
  CHECK(parse_utility("table:-1:0").problem == "point 1: its seconds must be 0 or more");
}

TEST_CASE("the table of a view counts before that of the settings") {
  JobView job = job_on(0, 2);
  const auto settings = parse_utility("linear:100,10");
  CHECK(utility_of(job, settings, 0)(5) == doctest::Approx(50));
  job.utility = {{0, 3}, {10, 1}};
  CHECK(utility_of(job, settings, 0)(5) == doctest::Approx(2));
}

// Two hosts of 2 slots at $1 and $3, the job's 2 workers on the dear one, 2 slots free on the cheap one.
TEST_CASE("the price of a size is that of the cheapest slots within reach") {
  std::vector<HostView> hosts(2);
  hosts[0].price_per_worker_hour = 3;
  hosts[1].price_per_worker_hour = 1;
  hosts[1].free_slots = 2;
  const JobView job = job_on(1, 2);
  const Prices prices(hosts, job, 7);
  CHECK(prices.per_s(1) * kHour == doctest::Approx(1));
  CHECK(prices.per_s(4) * kHour == doctest::Approx(1 + 1 + 3 + 3));
  CHECK(prices.per_s(5) * kHour == doctest::Approx(8 + 3));
  hosts[1].leaving = true;
  CHECK(Prices(hosts, job, 7).per_s(2) * kHour == doctest::Approx(6));
  CHECK(Prices({}, job, 7).per_s(2) * kHour == doctest::Approx(14));
}

}  // namespace
}  // namespace elastictrain::heuristics
