#include "heuristics/sharing/turns.h"

#include <algorithm>

namespace elastictrain::heuristics::sharing {

namespace {

// A grant is not a turn yet: where slots cannot pass on at once somebody else may have had it.
void count_turns(const View& view, Turns& turns) {
  for (const JobView& job : view.jobs) {
    Turns::Turn& turn = turns.of[job.id];
    if (job.held > 0 && !turn.counted) ++turn.had;
    if (job.held > 0) turn.counted = true;
  }
}

}  // namespace

std::uint32_t share_by_turns(const View& view, Turns& turns, std::vector<std::uint32_t>& shares) {
  count_turns(view, turns);
  std::uint32_t free = view.slots;
  std::vector<std::uint32_t> others;
  for (std::uint32_t place = 0; place < shares.size(); ++place) {
    const JobView& job = view.jobs[place];
    if (job.held > 0 && view.now_s < turns.of[job.id].until_s && job.held <= free) {
      shares[place] = static_cast<std::uint32_t>(job.held);
      free -= shares[place];
    } else {
      others.push_back(place);
    }
  }
  const auto key = [&](std::uint32_t place) {
    return std::pair(turns.of[view.jobs[place].id].had, view.jobs[place].first_start_s);
  };
  std::stable_sort(others.begin(), others.end(), [&](std::uint32_t a, std::uint32_t b) { return key(a) < key(b); });
  for (std::size_t i = 0; i < others.size() && free > 0; ++i, --free) shares[others[i]] = 1;
  return free;
}

void start_turns(const View& view, const std::vector<std::uint32_t>& shares, double slice_s, Turns& turns,
                 Decision& decision) {
  count_turns(view, turns);
  for (std::size_t place = 0; place < shares.size(); ++place) {
    if (shares[place] == 0) continue;
    Turns::Turn& turn = turns.of[view.jobs[place].id];
    if (view.now_s >= turn.until_s || view.jobs[place].held == 0) {
      turn.until_s = view.now_s + slice_s;
      turn.counted = false;
    }
    if (view.jobs.size() > view.slots) decision.again_s = std::min(decision.again_s, turn.until_s);
  }
}

double turn_end_s(const View& view, const Turns& turns, std::size_t place) {
  if (view.jobs.size() <= view.slots) return 0;
  const auto found = turns.of.find(view.jobs[place].id);
  return found == turns.of.end() ? 0 : found->second.until_s;
}

}  // namespace elastictrain::heuristics::sharing
