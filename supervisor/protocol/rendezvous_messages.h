// Purpose: the messages between a run and a command that offers it a host (launcher/rendezvous). Plain data; codec.h
// turns them into bytes.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "supervisor/protocol/agent_messages.h"
#include "supervisor/protocol/ids.h"

namespace elastictrain::protocol {

// The first message on a connection.
struct HostOffer {
  std::uint32_t protocol_version = 0;
  std::string build_id;        // agents are of this build
  std::uint64_t instance = 0;  // of the command: the same after its connection broke
  std::string host;
  std::uint32_t slots = 0;
};
// As launcher::LaunchEnded.
struct AgentEnded {
  AgentId agent;
  bool launched = false;
  std::int32_t exit_code = 0;
  std::int32_t signal = 0;
  std::string message;
  bool agent_ended = false;
};
// The host is about to go away: its workers should leave.
struct HostLeaves {
  std::string reason;
};
using GuestUp = std::variant<HostOffer, AgentEnded, HostLeaves>;

struct ForgetAgent {
  AgentId agent;
};
struct HostRefused {
  std::string reason;
};
// The run will never use the host: the command ends, with status 0.
struct HostUnneeded {
  std::string reason;
};
struct RunEnded {
  std::int32_t status = 0;  // the run's exit status
};
// AgentBootstrap: start an agent with it.
using GuestDown = std::variant<AgentBootstrap, ForgetAgent, HostRefused, HostUnneeded, RunEnded>;

}  // namespace elastictrain::protocol
