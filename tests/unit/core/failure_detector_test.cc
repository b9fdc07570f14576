#include "supervisor/core/pure/failure_detector.h"

#include <doctest/doctest.h>

using namespace elastictrain;
using namespace elastictrain::core;

namespace {

constexpr AgentId kAgent{1};
Instant at_ms(int ms) {
  return Instant{} + Millis(ms);
}

}  // namespace

TEST_CASE("an agent that reports stays healthy") {
  FailureDetector detector(Millis(1000), Millis(3000));
  CHECK(detector.watch(kAgent, at_ms(0)) == at_ms(1000));
  CHECK_FALSE(detector.on_message(kAgent, at_ms(900)));
  const auto look = detector.look(kAgent, at_ms(1000));
  CHECK(look.verdict == Verdict::kHealthy);
  CHECK_FALSE(look.changed);
  CHECK(look.next == at_ms(1900));
}

TEST_CASE("silence makes an agent suspect, then dead") {
  FailureDetector detector(Millis(1000), Millis(3000));
  detector.watch(kAgent, at_ms(0));
  const auto first = detector.look(kAgent, at_ms(1000));
  CHECK(first.verdict == Verdict::kSuspect);
  CHECK(first.changed);
  CHECK(first.next == at_ms(3000));
  const auto second = detector.look(kAgent, first.next);
  CHECK(second.verdict == Verdict::kDead);
  CHECK(second.changed);
  CHECK(detector.silence(kAgent, at_ms(3000)) == Millis(3000));
}

TEST_CASE("a suspect that reports is healthy again") {
  FailureDetector detector(Millis(1000), Millis(3000));
  detector.watch(kAgent, at_ms(0));
  detector.look(kAgent, at_ms(1000));
  CHECK(detector.on_message(kAgent, at_ms(1200)));
  CHECK(detector.look(kAgent, at_ms(3000)).verdict == Verdict::kSuspect);
  CHECK_FALSE(detector.on_message(AgentId{2}, at_ms(1200)));
}

TEST_CASE("a late timer alone is no reason to declare a host dead") {
  FailureDetector detector(Millis(1000), Millis(3000));
  detector.watch(kAgent, at_ms(0));
  // Our own loop was suspended for ten seconds: the reports wait in the socket.
  const auto look = detector.look(kAgent, at_ms(10000));
  CHECK(look.verdict == Verdict::kSuspect);
  CHECK(look.next == at_ms(10500));
  CHECK(detector.on_message(kAgent, at_ms(10001)));
  CHECK(detector.look(kAgent, look.next).verdict == Verdict::kHealthy);
}

TEST_CASE("the dead stay dead and the forgotten are unknown") {
  FailureDetector detector(Millis(1000), Millis(3000));
  detector.watch(kAgent, at_ms(0));
  detector.look(kAgent, at_ms(1000));
  detector.look(kAgent, at_ms(3000));
  CHECK_FALSE(detector.on_message(kAgent, at_ms(3001)));
  const auto later = detector.look(kAgent, at_ms(4000));
  CHECK(later.verdict == Verdict::kDead);
  CHECK_FALSE(later.changed);
  detector.forget(kAgent);
  CHECK(detector.silence(kAgent, at_ms(9000)) == Millis(0));
}
