#include "supervisor/core/exclusion.h"

#include <algorithm>

#include "supervisor/core/change.h"
#include "supervisor/core/change_runner.h"
#include "supervisor/core/hang_judge.h"
#include "supervisor/core/outbox.h"
#include "supervisor/core/recovery.h"
#include "supervisor/core/run_end.h"
#include "supervisor/core/settings.h"
#include "supervisor/core/training.h"
#include "supervisor/core/worker_control.h"
#include "supervisor/protocol/duration_text.h"

namespace elastictrain::core {

Exclusion::Exclusion(const RunSettings& settings, Roster& roster, Outbox& out, Training& training, Change& change,
                     Recovery& recovery, RunEnd& end, HangJudge& hang_judge, ChangeRunner& runner,
                     WorkerControl& workers)
    : settings_(settings),
      roster_(roster),
      out_(out),
      training_(training),
      change_(change),
      recovery_(recovery),
      end_(end),
      hang_judge_(hang_judge),
      runner_(runner),
      workers_(workers) {}

void Exclusion::prepare_timed_out() {
  const std::set<WorkerId> late(change_.waiting.begin(), change_.waiting.end());
  runner_.cancel("no answer in time");
  leave_out(late, "did not build its communicator within " + protocol::duration_text(settings_.prepare_timeout));
}

// Never all of them: when all workers report each other, those on the host of the lowest rank stay.
void Exclusion::leave_out(std::set<WorkerId> guilty, const std::string& why) {
  const auto innocent = std::find_if(training_.members.begin(), training_.members.end(), [&](WorkerId id) {
    return !guilty.contains(id) && recovery_.holds_state(roster_.worker(id));
  });
  if (innocent == training_.members.end() && !training_.members.empty()) {
    const std::string host = roster_.worker(training_.members.front())->host;
    const bool elsewhere = std::any_of(guilty.begin(), guilty.end(), [&](WorkerId id) {
      return roster_.worker(id) != nullptr && roster_.worker(id)->host != host;
    });
    std::erase_if(guilty, [&](WorkerId id) {
      const Worker* worker = roster_.worker(id);
      return worker == nullptr || (elsewhere ? worker->host == host : id == training_.members.front());
    });
  }
  for (WorkerId id : guilty) {
    Worker* worker = roster_.worker(id);
    if (worker == nullptr || end_.mode == EndMode::kNow) continue;
    if (worker->seated()) {
      hang_judge_.end_hung(*worker, why);
    } else {
      workers_.expel_joiner(id, why);
    }
  }
  out_.look_again();
}

}  // namespace elastictrain::core
