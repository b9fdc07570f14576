#include "train/session/monitors.h"

#include <doctest/doctest.h>

#include <limits>

namespace elastictrain::session {
namespace {

StepFigures figures(Generation generation, Step step, std::uint64_t sent, std::uint64_t received) {
  StepFigures made{.generation = generation, .step = step};
  made.traffic.bytes_sent = sent;
  made.traffic.bytes_received = received;
  return made;
}

TEST_CASE("a heartbeat has the bytes of a step, also where a new generation counts from 0") {
  Monitors monitors;
  monitors.assigned(1, 0);
  const Clock::time_point now{};
  monitors.step_done({}, figures(1, 1, 100, 10), now);
  monitors.step_done({}, figures(1, 2, 300, 30), now);
  auto heartbeat = monitors.heartbeat();
  CHECK(heartbeat.mean.sent_bytes == doctest::Approx(150));
  CHECK(heartbeat.mean.received_bytes == doctest::Approx(15));
  monitors.step_done({}, figures(1, 3, 400, 40), now);
  monitors.assigned(2, 3);
  monitors.step_done({}, figures(2, 4, 500, 60), now);
  heartbeat = monitors.heartbeat();
  CHECK(heartbeat.mean.sent_bytes == doctest::Approx(300));
  CHECK(heartbeat.mean.received_bytes == doctest::Approx(35));
  CHECK(monitors.heartbeat().mean.sent_bytes == 0);
}

TEST_CASE("a heartbeat has the means of the norms, and of the inverse batches that they are of") {
  Monitors monitors;
  monitors.norms_known(
      {.local_square = 3, .global_square = 2, .local_inverse_batch = 0.5, .global_inverse_batch = 0.25});
  monitors.norms_known(
      {.local_square = 5, .global_square = 3, .local_inverse_batch = 0.3, .global_inverse_batch = 0.05});
  const auto heartbeat = monitors.heartbeat();
  CHECK(heartbeat.norm_steps == 2);
  CHECK(heartbeat.local_square == doctest::Approx(4));
  CHECK(heartbeat.global_square == doctest::Approx(2.5));
  CHECK(heartbeat.local_inverse_batch == doctest::Approx(0.4));
  CHECK(heartbeat.global_inverse_batch == doctest::Approx(0.15));
  CHECK(monitors.heartbeat().norm_steps == 0);
}

TEST_CASE("a heartbeat has the mean loss of all steps since the last one, each weighted by its samples") {
  Monitors monitors;
  const auto step = [&](double loss, std::uint64_t samples, bool is_new = true) {
    monitors.step_done({}, {.loss = loss, .has_new_loss = is_new, .global_samples = samples}, {});
  };
  step(4, 10);
  step(1, 30);
  step(1, 50, false);  // nobody said one
  step(std::numeric_limits<double>::infinity(), 10);
  step(2, 10);
  auto heartbeat = monitors.heartbeat();
  CHECK(heartbeat.loss == 2);
  CHECK(heartbeat.loss_samples == 50);
  CHECK(heartbeat.mean_loss == doctest::Approx((4 * 10 + 1 * 30 + 2 * 10) / 50.0));
  CHECK(monitors.heartbeat().loss_samples == 0);
  step(3, 8);
  CHECK(monitors.heartbeat().mean_loss == doctest::Approx(3));
}

TEST_CASE("the round trip is the newest that was measured") {
  Monitors monitors;
  monitors.round_trip_known(80);
  monitors.round_trip_known(70);
  monitors.step_done({}, figures(1, 1, 0, 0), {});
  CHECK(monitors.heartbeat().round_trip_us == 70);
}

}  // namespace
}  // namespace elastictrain::session
