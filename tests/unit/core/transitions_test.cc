#include "supervisor/core/pure/invariants.h"

#include <doctest/doctest.h>

#include <iterator>
#include <set>
#include <string>
#include <utility>

using namespace elastictrain;
using namespace elastictrain::core;

namespace {

constexpr Phase kAllPhases[] = {Phase::kStarting,   Phase::kResuming, Phase::kTraining,
                                Phase::kChanging,   Phase::kHalted,   Phase::kBelowMin,
                                Phase::kRecovering, Phase::kEnding,   Phase::kEnded};
static_assert(std::size(kAllPhases) == kPhases);

template <std::size_t... I>
std::vector<Event> one_of_each(std::index_sequence<I...>) {
  return {Event(std::in_place_index<I>)...};
}

std::vector<Event> all_events() {
  return one_of_each(std::make_index_sequence<std::variant_size_v<Event>>());
}

bool is_request(const Event& event) {
  const std::set<std::string> names{"resize",       "replace_worker", "replace_host", "drain_host",
                                    "undrain_host", "stop",           "update_plan"};
  return names.contains(name_of(event));
}

}  // namespace

TEST_CASE("every pair of phase and event is listed: handled, refused or ignored") {
  std::set<std::string> names;
  for (const Event& event : all_events()) {
    names.insert(name_of(event));
    for (Phase phase : kAllPhases) {
      const Handling how = handling(phase, event);
      // Every request that waits for an answer gets one; no other is refused.
      if (is_request(event)) CHECK(how != Handling::kIgnore);
      if (!is_request(event)) CHECK(how != Handling::kRefuse);
    }
  }
  CHECK(names.size() == std::variant_size_v<Event>);
}

TEST_CASE("the table names each event after its type") {
  CHECK(std::string(name_of(Event(HostsOffered{}))) == "hosts_offered");
  CHECK(std::string(name_of(Event(WorkerMessage{}))) == "worker_message");
  CHECK(std::string(name_of(Event(DrainHost{}))) == "drain_host");
  CHECK(std::string(name_of(Event(TimerFired{}))) == "timer_fired");
}

TEST_CASE("nothing but refusals happens after the end") {
  for (const Event& event : all_events()) CHECK(handling(Phase::kEnded, event) != Handling::kHandle);
}

TEST_CASE("a run that ends never starts again and never leaves its end") {
  for (Phase from : kAllPhases) {
    CHECK(may_follow(from, from));
    CHECK(may_follow(from, Phase::kEnded));
    if (from != Phase::kEnded && from != Phase::kEnding) continue;
    CHECK_FALSE(may_follow(from, Phase::kStarting));
    CHECK_FALSE(may_follow(from, Phase::kTraining));
  }
}

TEST_CASE("a loss leads to training only by a halt and the generation that follows it") {
  for (Phase from : {Phase::kTraining, Phase::kChanging}) {
    CHECK(may_follow(from, Phase::kHalted));
    CHECK_FALSE(may_follow(from, Phase::kRecovering));
    CHECK_FALSE(may_follow(from, Phase::kBelowMin));
  }
  for (Phase from : {Phase::kHalted, Phase::kBelowMin}) {
    CHECK(may_follow(from, Phase::kRecovering));
    CHECK_FALSE(may_follow(from, Phase::kTraining));
  }
  CHECK(may_follow(Phase::kRecovering, Phase::kTraining));
}
