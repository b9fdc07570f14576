// What a session answers after finish(), and to values that no program means: an error or a plain value, never a crash.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>

#include "elastictrain/session.hpp"
#include "tests/unit/train_session/every_call.h"
#include "tests/unit/train_session/fake_run.h"

namespace elastictrain::test {
namespace {

const std::string kValuesAndNothing =
    "attachment monitors peer_monitors measure_gradient_variance half_batch early last_step rank finish ";

TEST_CASE("after finish() of a program without a launcher each call is refused or returns a value") {
  Session session;
  float weights = 0;
  session.share_model("weights", &weights, 1);
  session.set_data({.sample_count = 4});
  session.start();
  session.finish();
  CHECK(calls_that_return(session) == kValuesAndNothing);
}

TEST_CASE("the same in a run, at its end and in the middle of it") {
  for (const bool at_end : {true, false}) {
    TestWorkerOptions options{.max_steps = 5, .uses_store = true};
    const auto finish = [](Session& session) {
      session.finish();
      std::_Exit(calls_that_return(session) == kValuesAndNothing ? kExitFinished : kExitBrokenPromise);
    };
    if (at_end) options.at_end = finish;
    if (!at_end) options.between_steps = [finish](Session& session, std::uint64_t) { finish(session); };
    FakeRun run(options);
    const auto workers = run.spawn_ready(2);
    run.change_to(workers);
    run.wait_all_exited();
    for (const auto worker : workers) CHECK(run[worker].exit_code == kExitFinished);
  }
}

TEST_CASE("sizes and numbers that no program means are refused") {
  Session session;
  static float value = 0;
  constexpr std::size_t huge = std::numeric_limits<std::size_t>::max();
  CHECK_THROWS_AS(session.share_model("m", &value, std::size_t(1) << 62), SessionError);
  CHECK_THROWS_AS(session.share_model("m", &value, huge), SessionError);
  CHECK_THROWS_AS(session.share_state("s", &value, huge), SessionError);
  const std::uint64_t dimensions[] = {std::uint64_t(1) << 33, std::uint64_t(1) << 33};
  CHECK_THROWS_AS(session.share_tensor("t", &value, "F32", dimensions), SessionError);
  CHECK_THROWS_AS(session.share_early("e", &value, huge), SessionError);
  session.share_state("weight", &value, sizeof value);
  CHECK_THROWS_WITH_AS(session.set_data({.sample_count = 4, .batch = (1U << 30) + 1}),
                       "set_data() with a batch of more than 2^30 samples", SessionError);
  session.set_data({.sample_count = 4, .batch = 1U << 30});
  session.set_data({.sample_count = 4});
  session.start();
  CHECK_THROWS_AS(session.note("key", std::string(100'000, 'x')), SessionError);
  CHECK_THROWS_AS(session.note(std::string(1000, 'k'), "value"), SessionError);
  REQUIRE(session.next_batch());
  CHECK_THROWS_AS(session.all_reduce(&value, huge), SessionError);
  CHECK_THROWS_AS(session.sum(&value, huge), SessionError);
  CHECK_THROWS_AS(session.broadcast(&value, huge), SessionError);
  CHECK_THROWS_AS(session.all_gather(&value, huge, &value), SessionError);
  CHECK_THROWS_AS(session.reduce_values(&value, huge, DataType::kFloat32), SessionError);
  CHECK_THROWS_AS(session.request_learning_rate_factor(std::numeric_limits<double>::quiet_NaN()), SessionError);
}

}  // namespace
}  // namespace elastictrain::test
