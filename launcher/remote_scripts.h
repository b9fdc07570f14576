// Purpose: the scripts that run on a host that another program reaches: one starts the agent, one stores a copy of the
// binary. One line without single quotes each, for sh, with parameters.
//
// Thread: pure functions. Errors: none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/agent_program.h"

namespace elastictrain::launcher {

struct RemoteScript {
  const char* text;
  std::vector<std::string> parameters;
  // For a program that passes the words of a command on as they are.
  std::vector<std::string> words() const;
};

// Starts the agent: this path if it is of this build there, otherwise the cached copy, otherwise exits with
// kNoBinaryStatus.
RemoteScript start_script(const AgentProgram& program);

// Stores standard input as the cached copy, if all `bytes` of it arrive and it runs. `nonce` (letters and digits)
// separates copies that hosts with a shared home directory make at the same time.
RemoteScript copy_script(const AgentProgram& program, std::uint64_t bytes, const std::string& nonce);

std::string make_nonce();

}  // namespace elastictrain::launcher
