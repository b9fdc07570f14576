#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temporary_directory.h"
#include "train/builtin/model_synthetic.h"

using namespace elastictrain::train;

namespace {

TrainerOptions small_options() {
  TrainerOptions options;
  options.model = ModelKind::kSynthetic;
  options.parameter_bytes = 4001;
  options.compute_us_per_sample = 0;
  return options;
}

std::vector<float> gradient_of(SyntheticModel& model, std::vector<std::uint64_t> samples) {
  model.compute(samples, [](Range) {});
  return {model.gradient().begin(), model.gradient().end()};
}

}  // namespace

TEST_CASE("buckets cover the gradient once, from its end to its beginning") {
  TrainerOptions options = small_options();
  for (const std::uint32_t buckets : {1U, 3U, 4096U}) {
    options.buckets = buckets;
    SyntheticModel model(options);
    std::size_t end = model.gradient().size();
    CHECK(end == 1000);
    for (const Range& bucket : model.buckets()) {
      CHECK(bucket.count > 0);
      CHECK(bucket.begin + bucket.count == end);
      end = bucket.begin;
    }
    CHECK(end == 0);
    CHECK(model.buckets().size() == std::min<std::size_t>(buckets, 1000));
    std::vector<Range> reported;
    model.compute(std::vector<std::uint64_t>{1}, [&](Range bucket) { reported.push_back(bucket); });
    CHECK(std::equal(reported.begin(), reported.end(), model.buckets().begin(), model.buckets().end()));
  }
}

TEST_CASE("the synthetic gradient is the mean over the samples") {
  SyntheticModel model(small_options());
  const auto one = gradient_of(model, {5});
  const auto two = gradient_of(model, {9});
  const auto both = gradient_of(model, {5, 9});
  CHECK(one != two);
  for (std::size_t i = 0; i < both.size(); ++i) {
    REQUIRE(both[i] == doctest::Approx((one[i] + two[i]) / 2).epsilon(1e-5));
  }
}

TEST_CASE("the same seed gives the same parameters, another one does not") {
  TrainerOptions options = small_options();
  SyntheticModel a(options);
  SyntheticModel b(options);
  options.seed = 2;
  SyntheticModel c(options);
  CHECK(std::equal(a.parameters().begin(), a.parameters().end(), b.parameters().begin()));
  CHECK_FALSE(std::equal(a.parameters().begin(), a.parameters().end(), c.parameters().begin()));
}

TEST_CASE("a constant gradient does not depend on the samples") {
  TrainerOptions options = small_options();
  options.gradient = GradientKind::kConstant;
  SyntheticModel model(options);
  CHECK(gradient_of(model, {1}) == gradient_of(model, {2, 3}));
}

TEST_CASE("compute time grows with samples and factor, and compute() takes at least that long") {
  using namespace std::chrono_literals;
  CHECK(SyntheticModel::compute_time(250, 8, 1) == 2ms);
  CHECK(SyntheticModel::compute_time(250, 8, 2.5) == 5ms);
  for (const ComputeKind kind : {ComputeKind::kSleep, ComputeKind::kSpin}) {
    TrainerOptions options = small_options();
    options.compute = kind;
    options.compute_us_per_sample = 5000;
    options.slow = {{7, 2.0}};
    SyntheticModel model(options);
    model.set_worker(7);
    const auto start = std::chrono::steady_clock::now();
    gradient_of(model, {1, 2});
    CHECK(std::chrono::steady_clock::now() - start >= 20ms);
  }
}

TEST_CASE("a worker is slowed down by its list entry times its file, which may change and vanish") {
  const elastictrain::test::TemporaryDirectory dir;
  const std::vector<SlowWorker> list = {{3, 2.5}};
  SlowDown listed(list, dir.path, 3);
  SlowDown other(list, dir.path, 4);
  CHECK(listed.next_factor() == 2.5);
  CHECK(other.next_factor() == 1);

  const auto factor_after_some_steps = [](SlowDown& slow_down) {
    for (int i = 0; i < 8; ++i) slow_down.next_factor();
    return slow_down.next_factor();
  };
  dir.write("slow-3", "2\n");
  CHECK(factor_after_some_steps(listed) == 5);
  CHECK(factor_after_some_steps(other) == 1);
  for (const char* useless : {"", "fast", "-3", "0", "1e9"}) {
    dir.write("slow-3", useless);
    CHECK(factor_after_some_steps(listed) == 2.5);
  }
  CHECK(factor_after_some_steps(listed) == 2.5);
}

TEST_CASE(
    "an exchange takes a time by the number of workers, between given ones on a line, beyond them that of the last") {
  using namespace std::chrono_literals;
  const std::vector<ExchangeTime> times = {{2, 1000}, {4, 5000}};
  CHECK(SyntheticModel::exchange_time(times, 1) == 1ms);
  CHECK(SyntheticModel::exchange_time(times, 2) == 1ms);
  CHECK(SyntheticModel::exchange_time(times, 3) == 3ms);
  CHECK(SyntheticModel::exchange_time(times, 4) == 5ms);
  CHECK(SyntheticModel::exchange_time(times, 9) == 5ms);
}

TEST_CASE("files slow all workers down, lengthen the exchange and let one worker wait for its data") {
  using namespace std::chrono_literals;
  const elastictrain::test::TemporaryDirectory dir;
  dir.write("slow-all", "3");
  SlowDown any({}, dir.path, 8);
  CHECK(any.next_factor() == 3);

  ::setenv("ELASTICTRAIN_SLOW_DIR", dir.path.c_str(), 1);
  dir.write("exchange", "4");
  dir.write("data-7", "20");
  TrainerOptions options = small_options();
  options.exchange_us = {{1, 5000}};
  SyntheticModel model(options);
  model.set_worker(7);
  ::unsetenv("ELASTICTRAIN_SLOW_DIR");
  const auto taken = [](const auto& call) {
    const auto start = std::chrono::steady_clock::now();
    call();
    return std::chrono::steady_clock::now() - start;
  };
  CHECK(taken([&] { model.exchanged(1); }) >= 20ms);
  CHECK(taken([&] { model.load_data(); }) >= 20ms);
}
