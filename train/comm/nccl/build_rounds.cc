#include "train/comm/nccl/build_rounds.h"

#include <algorithm>
#include <thread>
#include <vector>

namespace elastictrain::comm {
namespace {

constexpr std::chrono::microseconds kLook{500};

BuildState look_for_a_round(std::chrono::milliseconds round, const std::function<BuildState()>& look) {
  const auto until = std::chrono::steady_clock::now() + round;
  BuildState state = look();
  while (state == BuildState::kBuilding && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(kLook);
    state = look();
  }
  return state;
}

}  // namespace

Result<BuildState> build_in_rounds(Communicator& host_plane, std::chrono::milliseconds round,
                                   const std::function<BuildState()>& look) {
  BuildState mine = BuildState::kBuilding;
  std::vector<BuildState> all(host_plane.world_size());
  for (;;) {
    // A rank that has finished leaves the cores to the others.
    if (mine == BuildState::kBuilt) std::this_thread::sleep_for(round);
    if (mine == BuildState::kBuilding) mine = look_for_a_round(round, look);
    auto reported = host_plane.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
    if (!reported) return reported.error();
    const auto count = [&](BuildState state) { return std::count(all.begin(), all.end(), state); };
    if (count(BuildState::kFailed) > 0) return BuildState::kFailed;
    if (count(BuildState::kStalled) > 0) return BuildState::kStalled;
    if (count(BuildState::kBuilt) == std::ssize(all)) return BuildState::kBuilt;
  }
}

}  // namespace elastictrain::comm
