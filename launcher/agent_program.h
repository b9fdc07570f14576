// Purpose: the program of an agent as launchers start it on a host: its path and arguments, the id of its build, and
// the line that it prints once it is connected to the supervisor.
#pragma once

#include <string>

// Identifies this build, so that a host's binary can be compared with ours without copying it.
// Thread: any; computed once. Errors: none (a binary without a linker's note is hashed as a file).

namespace elastictrain::launcher {

// "<version>-<16 hex digits>": equal if and only if the build is the same. `elastictrain --build-id` prints it.
std::string build_id();

// Absolute path of the running binary; empty if the system does not report it.
std::string self_path();

// The line that an agent prints on its standard output once it is connected to the supervisor. It tells the
// launcher that the launch has worked; other lines there (a login message) have no meaning. The agent's id follows it,
// for launches whose agents share one output.

inline constexpr const char* kConnectedLine = "elastictrain-agent: connected as ";

// The program that a launcher starts on a host. Plain data. Thread: any one.

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
