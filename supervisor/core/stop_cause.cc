#include "supervisor/core/stop_cause.h"

namespace elastictrain::core {

int status_of(StopCause cause) {
  switch (cause) {
    case StopCause::kUser:
      return 0;
    case StopCause::kInterrupt:
      return 130;
    case StopCause::kPreempted:
    case StopCause::kTimeLimit:
      return 75;
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
  }
  return "stopped";
}

}  // namespace elastictrain::core
