// Purpose: the one way into a collective of a launched worker: not while its assignment is void, and a failure halts it
// until its next assignment. Ownership: the worker. Thread: the training thread, or the reducer's. Failure: that of the
// collective; kAborted if the worker is halted.
#pragma once

#include <string>

#include "supervisor/protocol/result.h"
#include "train/session/control_plane.h"
#include "train/session/run_progress.h"

namespace elastictrain::session {

class CollectiveGate {
 public:
  // `plane`: null without a launcher.
  CollectiveGate(ControlPlane* plane, const RunProgress& run_progress) : plane_(plane), run_progress_(run_progress) {}

  template <class Work>
  Status run(const char* what, Work&& work) const {
    if (plane_ == nullptr) return work();
    if (!plane_->enter_collective()) return halted();
    Status status = work();
    if (status) {
      plane_->leave_collective();
    } else {
      plane_->collective_failed(std::string(what) + " of step " + std::to_string(run_progress_.next_step()) +
                                    " failed: " + status.error().message,
                                status.error().code == ErrorCode::kMismatch);
    }
    return status;
  }

 private:
  static Status halted() { return Error{ErrorCode::kAborted, "this worker is halted until a new generation begins"}; }

  ControlPlane* const plane_;
  const RunProgress& run_progress_;
};

}  // namespace elastictrain::session
