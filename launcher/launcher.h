// Purpose: starts agents on hosts. One implementation per way (local fork/exec, ssh, the batch system's tool, MPI's
// command), all under one contract suite. The capabilities of a launcher are data, so that no code compares names.
//
// Thread: the Asio loop it was created with; results arrive there through the sink, even after stop(), until the
// process of that agent is gone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "supervisor/protocol/agent_messages.h"
#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::launcher {

struct Capabilities {
  std::string name;  // for messages
  bool reaches_other_hosts = false;
  bool copies_binary = false;  // copies the binary to a host that lacks it
};

struct AgentSpec {
  AgentId agent;
  std::string host;
  protocol::AgentBootstrap bootstrap;  // written to the agent's stdin
};

// The process on this machine that represents the agent (the agent itself, or its ssh) has exited. An agent that is
// connected may outlive its ssh; the connection decides, not this.
struct LaunchEnded {
  AgentId agent;
  bool launched = false;  // false: the agent never started; `message` has the tool's own reason
  int exit_code = 0;
  int signal = 0;
  std::string message;
  bool agent_ended = false;  // the agent itself is known to have exited, not only the process that represented it here
  bool may_work_later = false;  // not launched, for a reason that may pass: a host that boots, a full sshd
};

class Launcher {
 public:
  virtual ~Launcher() = default;
  virtual Capabilities capabilities() const = 0;
  // Returns at once; at most `parallelism` (see the implementation's options) start at the same time.
  virtual void launch(AgentSpec spec) = 0;
  // Makes sure that nothing of this agent's launch is left on this machine: TERM, then KILL after one second.
  virtual void forget(AgentId agent) = 0;
  // An agent of this host, launched by another supervisor of the run, may still run.
  virtual void adopt(const std::string&) {}
  // The command that launch() would run, for --dry-run.
  virtual std::vector<std::string> command_line(const std::string& host) const = 0;
};

using LaunchSink = std::function<void(LaunchEnded)>;

}  // namespace elastictrain::launcher
