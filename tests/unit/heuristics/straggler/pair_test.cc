#include "heuristics/straggler/findings.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

namespace elastictrain::heuristics {
namespace {

// Two workers on two hosts, seen once a second.
struct Pair {
  PairDifference difference;
  ClusterView view{.now_s = 0, .hosts = {{.name = "a", .slots = 1}, {.name = "b", .slots = 1}}};
  std::mt19937_64 random{7};
  double noise = 0.02;
  double first_s = 0.01;
  double second_s = 0.01;
  double first_busy = 0;
  double second_busy = 0;
  std::uint32_t shares[2] = {32, 32};

  WorkerView member(std::uint32_t rank, double compute_s, double busy) {
    WorkerView worker{.id = rank + 1, .rank = rank, .host = rank, .share = shares[rank], .steps = 20, .step_s = 0.02};
    worker.compute_s = compute_s * std::exp(noise * std::normal_distribution<double>()(random));
    worker.processors = busy;
    return worker;
  }
  std::optional<Reason> look(int times) {
    std::optional<Reason> found;
    for (int i = 0; i < times; ++i) {
      view.now_s += 1;
      JobView job{.name = "j", .workers = 2};
      job.members = {member(0, first_s, first_busy), member(1, second_s, second_busy)};
      found = difference.observe(view, job, {});
    }
    return found;
  }
};

TEST_CASE("of two workers the one that is slow from the start is named within seconds, with both hosts") {
  Pair pair;
  pair.second_s = 0.013;
  CHECK_FALSE(pair.look(5).has_value());
  const auto found = pair.look(5);
  REQUIRE(found.has_value());
  CHECK(found->code == "pair_differs");
  CHECK(found->text.starts_with("worker 2 (rank 1 on b) takes 1.3"));
  CHECK(found->text.find("times the time of worker 1 (rank 0 on a), ") != std::string::npos);
  CHECK(found->text.find("do not show which of them is as it should be") != std::string::npos);
  CHECK(found->text.find("processor") == std::string::npos);
  CHECK(found->numbers.at(0).second == doctest::Approx(1.3).epsilon(0.03));
}

TEST_CASE("the first one may be the slower, and its processor may say why") {
  Pair pair;
  pair.first_s = 0.02;
  pair.first_busy = 0.5;
  pair.second_busy = 0.98;
  const auto found = pair.look(10);
  REQUIRE(found.has_value());
  CHECK(found->text.starts_with("worker 1 (rank 0 on a) takes "));
  CHECK(found->text.find("its process keeps 0.50 processors busy, that of the other 0.98") != std::string::npos);
}

TEST_CASE("noise, a small difference and uneven shares that explain it are no difference") {
  Pair noisy;
  noisy.noise = 0.3;
  for (int i = 0; i < 1000; ++i) REQUIRE_FALSE(noisy.look(1).has_value());
  Pair close;
  close.second_s = 0.0105;
  CHECK_FALSE(close.look(200).has_value());
  Pair uneven;
  uneven.shares[1] = 64;
  uneven.second_s = 0.02;
  CHECK_FALSE(uneven.look(200).has_value());
}

TEST_CASE("it is over when both are equally fast, and unknown after a change of workers") {
  Pair pair;
  pair.second_s = 0.02;
  REQUIRE(pair.look(10).has_value());
  pair.second_s = 0.01;
  CHECK_FALSE(pair.look(300).has_value());
  pair.second_s = 0.02;
  REQUIRE(pair.look(300).has_value());
  JobView alone{.name = "j", .workers = 1};
  alone.members = {pair.member(0, 0.01, 0)};
  CHECK_FALSE(pair.difference.observe(pair.view, alone, {}).has_value());
  CHECK_FALSE(pair.look(5).has_value());
  CHECK(pair.look(5).has_value());
}

}  // namespace
}  // namespace elastictrain::heuristics
