// Purpose: the program that a launcher starts on a host. Plain data. Thread: any one.
#pragma once

#include <string>

namespace elastictrain::launcher {

// The agent's program: its absolute path on this machine, and the build that a host must have.
struct AgentProgram {
  std::string path;
  std::string build_id;
};

// The running binary, which launchers start by default.
AgentProgram this_program();

// Exit status of what is run on a host if the host has no binary of this build.
inline constexpr int kNoBinaryStatus = 86;

}  // namespace elastictrain::launcher
