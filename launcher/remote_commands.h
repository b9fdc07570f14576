// Purpose: the commands that reach a host, and the scripts that run there, as pure functions from options to argv.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/agent_program.h"
#include "supervisor/protocol/result.h"

// The scripts that run on a host that another program reaches: one starts the agent, one stores a copy of the
// binary. One line without single quotes each, for sh, with parameters.
//
// Thread: pure functions. Errors: none.

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

// The commands that reach a host, as pure functions from options to argv. The remote side of ssh is a shell
// line that the user's login shell reads (any of sh, csh, fish), so it is a constant script in single quotes whose
// parameters are checked to hold only characters that such a shell takes as plain text. Host key checking is left to
// ssh.
//
// Thread: pure functions. Errors: none; options are checked before (is_host_name, check_ssh_options).

struct SshOptions {
  std::string program = "ssh";  // looked up in PATH unless it contains a slash
  std::string user;
  std::uint16_t port = 0;  // 0: ssh's own choice
  std::string identity_file;
  std::vector<std::string> extra_arguments;
  std::uint64_t connect_timeout_ms = 10'000;
  std::uint64_t start_timeout_ms = 30'000;  // from ssh's start until its agent is connected to the supervisor
  std::uint64_t copy_timeout_ms = 120'000;  // for copying the binary
  std::uint32_t parallelism = 10;           // sshd refuses some of more that are not authenticated yet (MaxStartups)
  bool copy_binary = true;
};

// A user that starts with `-`, a program without a name, … are refused before anything is run.
Status check_ssh_options(const SshOptions& options);

// ssh and its options, for other tools that use it to reach hosts.
std::vector<std::string> ssh_arguments(const SshOptions& options);

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
