#include "heuristics/sharing/policy.h"

#include <algorithm>

namespace elastictrain::heuristics::sharing {

const char* name(Why why) {
  switch (why) {
    case Why::kWaits:
      return "waits";
    case Why::kFits:
      return "fits";
    case Why::kQueue:
      return "queue";
    case Why::kFair:
      return "fair_share";
    case Why::kGain:
      return "gain";
    case Why::kAlone:
      return "enough_for_all";
    case Why::kTurn:
      return "turn";
    case Why::kTried:
      return "packing_tried";
    case Why::kKept:
      return "packing_kept";
    case Why::kUndone:
      return "packing_undone";
    case Why::kStarted:
      return "started";
    case Why::kStarts:
      return "waits_for_starts";
    case Why::kLeaves:
      return "leaves_slots";
    case Why::kFirst:
      return "first_slots";
    case Why::kPays:
      return "start_costs";
    case Why::kSaid:
      return "own_reason";
  }
  return "";
}

namespace {

constexpr double kGandivaSlice_s = 60;
constexpr double kAfsQuantum_s = 7200;

auto without_settings(std::function<std::unique_ptr<SharingPolicy>()> make) {
  return [make = std::move(make)](const Settings&) { return make(); };
}

}  // namespace

const std::vector<PolicySpec>& sharing_policies() {
  static const std::vector<PolicySpec> all = {
      {"fifo", "first in, first out, strictly", false, false, without_settings(make_fifo)},
      {"srtf", "shortest remaining time first", false, true, without_settings(make_srtf)},
      {"srsf", "shortest remaining service (time x slots) first", false, true, without_settings(make_srsf)},
      {"max-min", "equal shares in whole slots", true, false,
       [](const Settings& settings) { return make_max_min(settings.slice_s); }},
      {"max-min-fluid", "equal shares in real numbers: a bound that no cluster can run", true, false,
       without_settings(make_max_min_fluid)},
      {"drf", "equal dominant shares of slots, CPUs and memory", true, false, without_settings(make_drf)},
      {"tiresias-l", "least attained service in three queues", false, false, without_settings(make_tiresias_l)},
      {"tiresias-g", "the Gittins index of what ended jobs needed", false, false, without_settings(make_tiresias_g)},
      {"themis", "the least largest finish-time ratio", true, true, without_settings(make_themis)},
      {"optimus", "slots where they shorten a job most", true, true, without_settings([] { return make_optimus(); })},
      {"afs-l", "AFS with known lengths", true, true, without_settings([] { return make_afs_l(); })},
      {"afs-p", "AFS without lengths", true, false,
       [](const Settings& settings) { return make_afs_p(settings.slice_s > 0 ? settings.slice_s : kAfsQuantum_s); }},
      {"gandiva", "time slices, two jobs in a slot where that pays, and growth onto idle slots", true, false,
       [](const Settings& settings) {
         return make_gandiva(settings.slice_s > 0 ? settings.slice_s : kGandivaSlice_s, settings.packs);
       },
       true},
      {"pollux", "goodput by Pollux's fitness, of jobs that adapt their batch", true, false,
       without_settings([] { return make_pollux(); }), false, true},
      {"worth", "our own: slots where a second of work is worth most to all jobs together", true, false,
       without_settings(make_worth)},
  };
  return all;
}

const PolicySpec* find_sharing_policy(const std::string& name) {
  const auto& all = sharing_policies();
  const auto found = std::find_if(all.begin(), all.end(), [&](const PolicySpec& one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace elastictrain::heuristics::sharing
