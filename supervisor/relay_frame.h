// Purpose: one message to many workers as the frames that go to their agents. The message is encoded once, whatever the
// number of agents: a plan for thousands of members takes megabytes, and each agent's copy differs only in the
// addressees. Pure. The result equals encode_frame() of the whole message.
#pragma once

#include <string>
#include <vector>

#include "supervisor/protocol/worker_messages.h"

namespace elastictrain {

class RelayFrame {
 public:
  explicit RelayFrame(const protocol::WorkerDown& message);
  std::string to(const std::vector<WorkerId>& workers) const;

 private:
  std::string message_;
};

}  // namespace elastictrain
