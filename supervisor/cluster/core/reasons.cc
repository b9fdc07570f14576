#include "supervisor/cluster/core/reasons.h"

#include <cstdio>

#include "heuristics/sharing/policies.h"
#include "supervisor/cluster/core/deciding.h"
#include "supervisor/cluster/core/handling.h"

namespace elastictrain::jobs {
namespace sharing = heuristics::sharing;
namespace {

using sharing::Why;

std::string fits_text(const Given& given, double number) {
  if (given.policy == "srtf") return "shortest remaining time (" + number_text(number) + " s)";
  if (given.policy == "srsf") return "least remaining service (" + number_text(number) + " slot-seconds)";
  return given.policy == "fifo" ? "first in the queue of those that fit" : "its request fits";
}

std::string fair_text(const Given& given, double number) {
  if (given.policy == "drf") return "dominant shares are equal, its own is " + number_text(100 * number) + " %";
  if (given.policy == "themis") {
    return "finish-time ratios are equal, its own is " + number_text(number) + " of the time on its fair share";
  }
  return "an equal share";
}

std::string gain_text(const Given& given, double number) {
  if (given.policy == "optimus") return "its last slot saves " + number_text(number) + " s";
  if (given.policy == "pollux") return number_text(number) + " times its goodput on its fair share";
  if (given.policy == "afs-l" && number > 0) return number_text(100 * number) + " % of its speed are its last slot's";
  if (given.policy == "worth") return "its last slot counts " + number_text(number) + " in the mean completion time";
  return "its slots gain more than with another job";
}

std::string grant_text(const Given& given, const sharing::Grant& grant) {
  const double for_s = grant.number - given.now_s;
  switch (grant.why) {
    case Why::kWaits:
      return "no slot is free for it now";
    case Why::kFits:
      return fits_text(given, grant.number);
    case Why::kQueue:
      return "queue " + number_text(grant.number + 1) + " of 3: " + number_text(given.used_slot_s) +
             " slot-seconds used";
    case Why::kFair:
      return fair_text(given, grant.number);
    case Why::kGain:
      return gain_text(given, grant.number);
    case Why::kAlone:
      return "all jobs have as many slots as they can use";
    case Why::kTurn:
      return for_s > 0 ? "its turn ends in " + number_text(for_s) + " s" : "nobody waits for its slots";
    case Why::kTried:
    case Why::kKept:
    case Why::kUndone:
      return sharing::name(grant.why);
    case Why::kStarted:
      return "it has just been given its slots, and keeps them for " + number_text(for_s) + " s";
    case Why::kStarts:
      return "its slots are kept by jobs that have just been given them";
    case Why::kLeaves:
      return "its length is not known, and jobs that have had no slot need some";
    case Why::kFirst:
      return "its first slots";
    case Why::kPays:
      return "as many slots as are worth the start of workers (" + number_text(grant.number) + " s)";
    case Why::kSaid:
      return given.said.empty() ? sharing::name(grant.why) : given.said;
  }
  return "";
}

}  // namespace

std::string number_text(double number) {
  char text[32];
  std::snprintf(text, sizeof text, number < 1000 ? "%.3g" : "%.0f", number);
  return text;
}

std::string reason_of(const Given& given, const sharing::Grant& grant) {
  const std::string before = given.policy + ": ";
  if (given.slots > 0) {
    const bool is_bounded = given.slots != static_cast<std::uint32_t>(grant.slots);
    return before + grant_text(given, grant) + (is_bounded ? ", within its sizes and limits" : "");
  }
  if (grant.why == Why::kUndone) return before + grant_text(given, grant) + ", " + looks_text(grant);
  if (grant.why == Why::kStarts) return before + grant_text(given, grant);
  if (grant.why == Why::kSaid && grant.slots < 1) {
    return before + (given.said.empty() ? "it is given no slots" : given.said);
  }
  return before + "no slot is free for it now";
}

}  // namespace elastictrain::jobs
