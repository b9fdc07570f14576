// Purpose: waits in a test for what a launcher says at the end of a launch. Thread: the test's.
#pragma once

#include <optional>
#include <vector>

#include "launcher/launcher.h"
#include "fake_supervisor.h"

namespace elastictrain::testing {

// `ends`: what the launcher's sink was told so far. The newest of that agent; an empty one, and a failed check, where
// none comes.
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
