#include "train/session/monitors.h"

#include <doctest/doctest.h>

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
  monitors.seated(1, 0);
  const Clock::time_point now{};
  monitors.step_done({}, figures(1, 1, 100, 10), now);
  monitors.step_done({}, figures(1, 2, 300, 30), now);
  auto heartbeat = monitors.heartbeat();
  CHECK(heartbeat.mean.sent_bytes == doctest::Approx(150));
  CHECK(heartbeat.mean.received_bytes == doctest::Approx(15));
  monitors.step_done({}, figures(1, 3, 400, 40), now);
  monitors.seated(2, 3);
  monitors.step_done({}, figures(2, 4, 500, 60), now);
  heartbeat = monitors.heartbeat();
  CHECK(heartbeat.mean.sent_bytes == doctest::Approx(300));
  CHECK(heartbeat.mean.received_bytes == doctest::Approx(35));
  CHECK(monitors.heartbeat().mean.sent_bytes == 0);
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
