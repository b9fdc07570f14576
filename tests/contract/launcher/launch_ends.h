// Purpose: waits in a test for a launcher's report of the end of a launch. Thread: the test's.
#pragma once

#include <optional>
#include <vector>

#include "fake_supervisor.h"
#include "launcher/launcher.h"

namespace elastictrain::testing {

// `ends`: the launcher's reports so far. Returns the newest of that agent, or an empty one with a failed check if none
// arrives.
inline launcher::LaunchEnded await_launch_end(FakeSupervisor& supervisor,
                                              const std::vector<launcher::LaunchEnded>& ends, AgentId agent) {
  std::optional<launcher::LaunchEnded> found;
  CHECK(supervisor.pump([&] {
    for (const auto& end : ends) {
      if (end.agent == agent) found = end;
    }
    return found.has_value();
  }));
  return found.value_or(launcher::LaunchEnded{});
}

}  // namespace elastictrain::testing
