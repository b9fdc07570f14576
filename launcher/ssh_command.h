// Purpose: the commands that reach a host, as pure functions from options to argv. The remote side of ssh is a shell
// line that the user's login shell reads (any of sh, csh, fish), so it is a constant script in single quotes whose
// parameters are checked to hold only characters that such a shell takes as plain text. Host key checking is left to
// ssh.
//
// Thread: pure functions. Errors: none; options are checked before (is_host_name, check_ssh_options).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/launcher.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::launcher {

// The agent's program: its absolute path on this machine, and the build that a host must have.
struct AgentProgram {
  std::string path;
  std::string build_id;
};

// Exit status of the remote script if the host has no binary of this build.
inline constexpr int kNoBinaryStatus = 86;

// A user that starts with `-`, a program without a name, … are refused before anything is run.
Status check_ssh_options(const SshOptions& options);

// ssh and its options, for other tools that use it to reach hosts.
std::vector<std::string> ssh_words(const SshOptions& options);

// The same with the host, without a remote command.
std::vector<std::string> ssh_prefix(const SshOptions& options, const std::string& host);

// Starts the agent: this path if it is of this build there, otherwise the cached copy, otherwise exits with
// kNoBinaryStatus.
std::vector<std::string> ssh_start_command(const SshOptions& options, const std::string& host,
                                           const AgentProgram& program);

// Stores standard input as the cached copy, if all `bytes` of it arrive and it runs. `nonce` (letters and digits)
// separates copies that hosts with a shared home directory make at the same time.
std::vector<std::string> ssh_copy_command(const SshOptions& options, const std::string& host,
                                          const AgentProgram& program, std::uint64_t bytes, const std::string& nonce);

}  // namespace elastictrain::launcher
