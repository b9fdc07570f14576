#include "supervisor/core/recovery.h"

#include "supervisor/core/outbox.h"
#include "supervisor/core/startup.h"

namespace elastictrain::core {

std::string Recovery::cause() const {
  if (reasons.empty()) return suspicion.empty() ? "a member is gone" : suspicion;
  std::string text;
  for (const std::string& reason : reasons) text += (text.empty() ? "" : "; ") + reason;
  return text;
}

std::vector<WorkerId> Recovery::living(const Roster& roster) const {
  std::vector<WorkerId> found;
  for (WorkerId id : order) {
    const Worker* worker = roster.worker(id);
    if (worker != nullptr && worker->trains()) found.push_back(id);
  }
  return found;
}

bool Recovery::holds_state(const Worker* worker) const {
  if (worker == nullptr || !worker->halted) return false;
  const protocol::WorkerHalted& answer = *worker->halted;
  if (!answer.has_state || !answer.in_loop || answer.committed_step != resume_step) return false;
  return answer.has_gradients || !gradients_are_left;
}

void Recovery::end(Outbox& out, Startup& startup) {
  out.cancel(halt_timer);
  out.cancel(startup.min_timer);
  *this = Recovery{};
}

}  // namespace elastictrain::core
