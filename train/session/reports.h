// Purpose: this worker's reports in words: to the supervisor, which writes them to the journal, or on standard error
// without a launcher. Ownership: none; the control plane is the session's. Thread: any. Failure: none.
#pragma once

#include <string>
#include <string_view>

#include "supervisor/protocol/worker_messages.h"

namespace elastictrain::session {

class ControlPlane;

class Reports {
 public:
  explicit Reports(ControlPlane* plane) : plane_(plane) {}  // null without a launcher

  void tell(std::string_view key, const std::string& text) const;
  void send(const protocol::WorkerToAgent& message) const;  // nothing without a launcher

 private:
  ControlPlane* const plane_;
};

}  // namespace elastictrain::session
