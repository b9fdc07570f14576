#include "supervisor/core/stop_cause.h"

#include "supervisor/core/settings.h"

namespace elastictrain::core {

int status_of(StopCause cause) {
  switch (cause) {
    case StopCause::kUser:
    case StopCause::kCancelled:
      return 0;
    case StopCause::kInterrupt:
      return 130;
    case StopCause::kPreempted:
    case StopCause::kTimeLimit:
    case StopCause::kSuspended:
      return kStatusComeAgain;
  }
  return 0;
}

const char* reason_of(StopCause cause) {
  switch (cause) {
    case StopCause::kUser:
      return "stopped by the user";
    case StopCause::kInterrupt:
      return "interrupted";
    case StopCause::kPreempted:
      return "preempted";
    case StopCause::kTimeLimit:
      return "the time limit is reached";
    case StopCause::kSuspended:
      return "suspended by the cluster";
    case StopCause::kCancelled:
      return "cancelled by the cluster";
  }
  return "stopped";
}

}  // namespace elastictrain::core
