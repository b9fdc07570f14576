// Purpose: everything that can happen to a run, as the state machine sees it. The edge (or a simulation) turns sockets,
// processes and timers into these; nothing else changes the state.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/message.h"

namespace elastictrain::core {

struct HostSlots {
  std::string host;
  std::uint32_t slots = 1;
  bool operator==(const HostSlots&) const = default;
};

// The complete list of hosts that the host source offers now; what is missing compared to the last one has vanished.
struct HostsOffered {
  std::vector<HostSlots> hosts;
};

struct AgentConnected {
  AgentId agent;
};
// Could not be started, or its connection is gone; `reason` is the launcher's own message.
struct AgentLost {
  AgentId agent;
  std::string reason;
};

struct WorkerSpawnFailed {
  WorkerId worker;
  std::string reason;
};
struct WorkerExited {
  WorkerId worker;
  std::int32_t exit_code = 0;
  std::int32_t signal = 0;
  std::vector<std::string> last_error_lines;
};
struct WorkerSaid {
  WorkerId worker;
  protocol::WorkerUp message;
};
struct AgentReported {
  AgentId agent;
  protocol::AgentReport report;
};

// Requests of a user (or later of a policy). Each is answered by exactly one Reply action with the same request id.
struct Resize {
  std::uint64_t request = 0;
  std::uint32_t target = 0;
  std::string reason;
};
struct ReplaceWorker {
  std::uint64_t request = 0;
  std::uint32_t rank = 0;
};
struct ReplaceHost {  // moves its workers elsewhere (or restarts them there when no other slot is free)
  std::uint64_t request = 0;
  std::string host;
};
struct DrainHost {
  std::uint64_t request = 0;
  std::string host;
};
// The run leaves at the next step boundary. Preempted: SIGTERM, a batch system's notice; else the user asked.
enum class StopCause : std::uint8_t { kUser, kInterrupt, kPreempted, kTimeLimit };
struct Stop {
  std::uint64_t request = 0;  // 0: nobody waits for a reply
  StopCause cause = StopCause::kUser;
};
// Second Ctrl-C: TERM to the workers at once, KILL after the grace.
struct StopNow {};

struct TimerFired {
  std::uint64_t timer = 0;
};

using Event = std::variant<HostsOffered, AgentConnected, AgentLost, WorkerSpawnFailed, WorkerExited, WorkerSaid,
                           AgentReported, Resize, ReplaceWorker, ReplaceHost, DrainHost, Stop, StopNow, TimerFired>;

}  // namespace elastictrain::core
