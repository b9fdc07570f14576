// What queue says of a job's slots, policy by policy.
#include "supervisor/cluster/core/deciding.h"

#include <doctest/doctest.h>

namespace elastictrain::cluster_core {
namespace {

using heuristics::sharing::Grant;
using heuristics::sharing::Why;

std::string said(const std::string& policy, Why why, double number, std::uint32_t slots = 2) {
  return reason_of({policy, "", slots, 3400, 100}, {2, why, number});
}

TEST_CASE("a reason says its number with its unit") {
  CHECK(said("fifo", Why::kFits, 0) == "fifo: first in the queue of those that fit");
  CHECK(said("srtf", Why::kFits, 2.8) == "srtf: shortest remaining time (2.8 s)");
  CHECK(said("srsf", Why::kFits, 5600) == "srsf: least remaining service (5600 slot-seconds)");
  CHECK(said("tiresias-l", Why::kQueue, 1) == "tiresias-l: queue 2 of 3: 3400 slot-seconds used");
  CHECK(said("max-min", Why::kFair, 2) == "max-min: an equal share");
  CHECK(said("drf", Why::kFair, 0.25) == "drf: dominant shares are equal, its own is 25 %");
  CHECK(said("themis", Why::kFair, 1.3) ==
        "themis: finish-time ratios are equal, its own is 1.3 of the time on its fair share");
  CHECK(said("optimus", Why::kGain, 12.5) == "optimus: its last slot saves 12.5 s");
  CHECK(said("afs-l", Why::kGain, 0.2) == "afs-l: 20 % of its speed are its last slot's");
  CHECK(said("afs-p", Why::kGain, 0) == "afs-p: its slots gain more than with another job");
  CHECK(said("worth", Why::kAlone, 0) == "worth: all jobs have as many slots as they can use");
}

TEST_CASE("a turn ends at a time where others wait, and has none where nobody does") {
  CHECK(said("afs-p", Why::kTurn, 104) == "afs-p: its turn ends in 4 s");
  CHECK(said("gandiva", Why::kTurn, 0) == "gandiva: nobody waits for its slots");
}

TEST_CASE("a job without slots is told why, and one with fewer than the policy says as well") {
  CHECK(said("worth", Why::kGain, 1, 0) == "worth: no slot is free for it now");
  CHECK(said("worth", Why::kStarts, 0, 0) == "worth: its slots are kept by jobs that have just been given them");
  CHECK(said("max-min", Why::kFair, 2, 1) == "max-min: an equal share, within its sizes and limits");
  CHECK(reason_of({"mine", "after lunch", 0, 0, 0}, {0, Why::kSaid, 0}) == "mine: after lunch");
}

}  // namespace
}  // namespace elastictrain::cluster_core
