// What a session answers after finish(), and to values that no program means: an error or a plain value, never a crash.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "elastictrain/session.hpp"
#include "tests/unit/train_session/fake_run.h"

namespace elastictrain::test {
namespace {

// Names of the calls that did not throw.
std::string calls_that_return(Session& session) {
  static float value = 1;
  static std::vector<float> room(64);
  constexpr std::uint64_t one = 1;
  const std::vector<std::pair<std::string, std::function<void()>>> calls = {
      {"share_state", [&] { session.share_state("new", &value, sizeof value); }},
      {"share_model", [&] { session.share_model("new", &value, 1); }},
      {"share_tensor",
       [&] {
         session.share_tensor("new", &value, "F32", {&one, 1});
       }},
      {"share_forward_tensor",
       [&] {
         session.share_forward_tensor("new", &value, "F32", {&one, 1});
       }},
      {"move_state", [&] { session.move_state("weights", room.data()); }},
      {"share_early", [&] { session.share_early("new", &value, sizeof value); }},
      {"set_data", [&] { session.set_data({.sample_count = 1}); }},
      {"use_device", [&] { session.use_device(0); }},
      {"share_device_state", [&] { session.share_device_state("new", &value, sizeof value); }},
      {"start", [&] { session.start(); }},
      {"next_batch", [&] { session.next_batch(); }},
      {"look_ahead", [&] { session.look_ahead(3); }},
      {"all_reduce", [&] { session.all_reduce(&value, 1); }},
      {"all_reduce_async", [&] { session.all_reduce_async(&value, 1); }},
      {"wait_all_reduce", [&] { session.wait_all_reduce(); }},
      {"all_reduce_device", [&] { session.all_reduce_device(&value, 1); }},
      {"all_reduce_device_async", [&] { session.all_reduce_device_async(&value, 1); }},
      {"commit_step", [&] { session.commit_step(); }},
      {"end_data", [&] { session.end_data(); }},
      {"phase", [&] { session.phase("data"); }},
      {"sum", [&] { session.sum(&value, 1); }},
      {"broadcast", [&] { session.broadcast(&value, sizeof value); }},
      {"reduce_values", [&] { session.reduce_values(&value, 1, DataType::kFloat32); }},
      {"broadcast_from", [&] { session.broadcast_from(&value, sizeof value, 0); }},
      {"all_gather", [&] { session.all_gather(&value, sizeof value, room.data()); }},
      {"reduce_scatter", [&] { session.reduce_scatter(room.data(), 1, DataType::kFloat32, Operation::kSum, &value); }},
      {"barrier", [&] { session.barrier(); }},
      {"enable_store", [&] { session.enable_store(); }},
      {"save", [&] { session.save("saved", &value, sizeof value, 1); }},
      {"request", [&] { session.request(0, "saved", 0, &value, sizeof value); }},
      {"peer_latencies_us", [&] { session.peer_latencies_us(); }},
      {"minimum_spanning_tree", [&] { session.minimum_spanning_tree(); }},
      {"monitors", [&] { session.monitors(); }},
      {"peer_monitors", [&] { session.peer_monitors(); }},
      {"measure_gradient_variance", [&] { session.measure_gradient_variance(1); }},
      {"request_resize", [&] { session.request_resize(2); }},
      {"request_batch", [&] { session.request_batch(2); }},
      {"request_learning_rate_factor", [&] { session.request_learning_rate_factor(2); }},
      {"request_synchronization", [&] { session.request_synchronization(Synchronization::kAveraging); }},
      {"request_topology", [&] { session.request_topology("ring"); }},
      {"note", [&] { session.note("key", "value"); }},
      {"early", [&] { session.early("new"); }},
      {"last_step", [&] { session.last_step(); }},
      {"rank", [&] { session.rank(); }},
      {"finish", [&] { session.finish(); }},
  };
  std::string returned;
  for (const auto& [name, call] : calls) {
    try {
      call();
      returned += name + " ";
    } catch (const SessionError&) {
    }
  }
  return returned;
}

const std::string kValuesAndNothing = "monitors peer_monitors measure_gradient_variance early last_step rank finish ";

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
