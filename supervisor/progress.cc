#include "supervisor/progress.h"

namespace elastictrain {

void Progress::on_heartbeat(const protocol::WorkerHeartbeat& heartbeat) {
  const bool newer = heartbeat.generation > newest_.generation ||
                     (heartbeat.generation == newest_.generation && heartbeat.step > newest_.step);
  if (newer && heartbeat.generation != 0) newest_ = heartbeat;
}

}  // namespace elastictrain
