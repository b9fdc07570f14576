#include "supervisor/core/plain_restart.h"

#include "supervisor/core/change.h"
#include "supervisor/core/outbox.h"
#include "supervisor/core/settings.h"
#include "supervisor/core/startup.h"
#include "supervisor/core/worker_control.h"
#include "supervisor/protocol/check.h"

namespace elastictrain::core {

PlainRestart::PlainRestart(const RunSettings& settings, Roster& roster, Outbox& out, Startup& startup, Change& change,
                           WorkerControl& workers)
    : settings_(settings), roster_(roster), out_(out), startup_(startup), change_(change), workers_(workers) {}

bool PlainRestart::begin(const std::string& why) {
  ET_CHECK(startup_.is_plain() && !startup_.clearing, "only a running plain program is started again");
  if (startup_.plain_restarts >= settings_.failures.plain_restarts) return false;
  ++startup_.plain_restarts;
  startup_.clearing = true;
  out_.journal(record::PlainRestart{startup_.plain_restarts, settings_.failures.plain_restarts, why});
  out_.tell(Tell::Level::kWarning, why + "; all processes are started again (restart " +
                                       std::to_string(startup_.plain_restarts) + " of " +
                                       std::to_string(settings_.failures.plain_restarts) + ")");
  out_.cancel(change_.timer);
  change_ = Change{};
  for (auto& [id, worker] : roster_.workers()) workers_.stop(worker);
  out_.look_again();
  return true;
}

bool PlainRestart::waits() {
  if (!startup_.clearing) return false;
  if (!roster_.workers().empty()) return true;
  startup_.clearing = false;
  startup_.spawned = startup_.last_call = false;
  startup_.plain_finished = 0;
  return false;
}

}  // namespace elastictrain::core
