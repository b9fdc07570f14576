#include "launcher/remote_commands.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <string_view>

namespace elastictrain::launcher {
namespace {

// $1: path of the local binary (or empty), $2: build id. Only a binary that nobody but this user and root can change is
// started; where there is none, one is copied. The directory counts as well, but in a sticky one others replace
// nothing. One line and no single quotes: csh accepts neither. The shell stays as the agent's parent, because ssh has
// no exit status for death by a signal, but a shell has 128 + s.
constexpr const char* kStartScript =
    "safe() { set -- $(ls -ldLn \"$1\" 2>/dev/null); case \"$1\" in -???\?-?\?-?*|d???\?-?\?-?*|d????????t*) ;; "
    "*) return 1;; esac; [ \"$3\" = 0 ] || [ \"$3\" = \"$(id -u)\" ]; }; "
    "for c in \"$1\" \"$HOME/.cache/elastictrain/$2/elastictrain\"; do "
    "if [ -x \"$c\" ] && safe \"$c\" && safe \"${c%/*}/\" && [ \"$(\"$c\" --build-id </dev/null 2>/dev/null)\" = "
    "\"$2\" ]; then \"$c\" agent; exit $?; fi; "
    "done; exit 86";

// $1: build id, $2: bytes, $3: nonce. The size is compared because a broken connection ends the input early.
constexpr const char* kCopyScript =
    "umask 077; d=\"$HOME/.cache/elastictrain/$1\"; t=\"$d/new.$3\"; mkdir -p \"$d\" || exit 1; "
    "if cat >\"$t\" && [ \"$(($(wc -c <\"$t\")))\" = \"$2\" ] && chmod 700 \"$t\" && "
    "[ \"$(\"$t\" --build-id </dev/null)\" = \"$1\" ] && mv -f \"$t\" \"$d/elastictrain\"; then exit 0; fi; "
    "rm -f \"$t\"; echo \"the copied elastictrain does not run here or did not arrive whole\" >&2; exit 1";

}  // namespace

std::vector<std::string> RemoteScript::words() const {
  std::vector<std::string> words = {"sh", "-c", text, "elastictrain"};
  words.insert(words.end(), parameters.begin(), parameters.end());
  return words;
}

RemoteScript start_script(const AgentProgram& program) {
  return {kStartScript, {program.path, program.build_id}};
}

RemoteScript copy_script(const AgentProgram& program, std::uint64_t bytes, const std::string& nonce) {
  return {kCopyScript, {program.build_id, std::to_string(bytes), nonce}};
}

std::string make_nonce() {
  std::random_device random;
  return std::to_string(random()) + "x" + std::to_string(random());
}

namespace {

// The characters that every common shell leaves unchanged between single quotes (fish interprets backslashes there, csh
// exclamation marks).
bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return c >= 0x20 && c != 0x7f && c != '\'' && c != '\\' && c != '!'; });
}

std::string in_quotes(const std::string& text) {
  return "'" + (is_plain(text) ? text : std::string()) + "'";
}

std::string remote_line(const RemoteScript& script) {
  std::string line = "exec sh -c '" + std::string(script.text) + "' elastictrain";
  for (const auto& parameter : script.parameters) line += " " + in_quotes(parameter);
  return line;
}

void add_option(std::vector<std::string>& argv, const std::string& option) {
  argv.emplace_back("-o");
  argv.push_back(option);
}

std::uint64_t whole_seconds(std::uint64_t ms) {
  return std::max<std::uint64_t>(1, (ms + 999) / 1000);
}

}  // namespace

Status check_ssh_options(const SshOptions& options) {
  const auto invalid = [](const std::string& what) { return Error{ErrorCode::kInvalid, what}; };
  if (options.program.empty()) return invalid("the ssh program's name is empty");
  if (!options.user.empty() && (options.user.front() == '-' || !is_plain(options.user))) {
    return invalid("\"" + options.user + "\" is not a user name for ssh");
  }
  // Those that ssh expands are left to it.
  const std::string& identity = options.identity_file;
  const bool is_plain_path = identity.find_first_of("~%$") == std::string::npos;
  if (!identity.empty() && is_plain_path && ::access(identity.c_str(), R_OK) != 0) {
    return invalid("launcher.ssh_identity " + identity + ": " + std::strerror(errno) +
                   "; name a private key file that exists, or leave it out to use those of ssh");
  }
  if (options.parallelism == 0) return invalid("ssh parallelism must be at least 1");
  return {};
}

std::vector<std::string> ssh_arguments(const SshOptions& options) {
  std::vector<std::string> argv{options.program, "-T", "-x"};
  // ssh takes the first value it reads, so the user's options come before our defaults.
  argv.insert(argv.end(), options.extra_arguments.begin(), options.extra_arguments.end());
  add_option(argv, "BatchMode=yes");
  add_option(argv, "ConnectTimeout=" + std::to_string(whole_seconds(options.connect_timeout_ms)));
  add_option(argv, "ServerAliveInterval=15");
  add_option(argv, "ServerAliveCountMax=4");
  if (!options.user.empty()) argv.insert(argv.end(), {"-l", options.user});
  if (options.port != 0) argv.insert(argv.end(), {"-p", std::to_string(options.port)});
  if (!options.identity_file.empty()) argv.insert(argv.end(), {"-i", options.identity_file});
  return argv;
}

std::vector<std::string> ssh_prefix(const SshOptions& options, const std::string& host) {
  auto argv = ssh_arguments(options);
  argv.insert(argv.end(), {"--", host});
  return argv;
}

std::vector<std::string> ssh_start_command(const SshOptions& options, const std::string& host,
                                           const AgentProgram& program) {
  auto argv = ssh_prefix(options, host);
  argv.push_back(remote_line(start_script(program)));
  return argv;
}

std::vector<std::string> ssh_copy_command(const SshOptions& options, const std::string& host,
                                          const AgentProgram& program, std::uint64_t bytes, const std::string& nonce) {
  auto argv = ssh_prefix(options, host);
  argv.push_back(remote_line(copy_script(program, bytes, nonce)));
  return argv;
}

}  // namespace elastictrain::launcher
