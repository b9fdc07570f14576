#include "launcher/remote_commands.h"

#include <doctest/doctest.h>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/support/temporary_directory.h"

namespace launcher = elastictrain::launcher;
using launcher::SshOptions;

namespace {

const launcher::AgentProgram kProgram{"/opt/et/elastictrain", "0.1.0-00ff"};

bool has_pair(const std::vector<std::string>& argv, const std::string& first, const std::string& second) {
  const auto place = std::find(argv.begin(), argv.end(), first);
  for (auto it = place; it != argv.end() && it + 1 != argv.end(); ++it) {
    if (*it == first && *(it + 1) == second) return true;
  }
  return false;
}

// Outside its single quotes the line may contain only characters that every shell takes literally.
bool is_safe_line(const std::string& line) {
  bool quoted = false;
  for (const char c : line) {
    if (c == '\'')
      quoted = !quoted;
    else if (!quoted && !std::isalnum(static_cast<unsigned char>(c)) && c != ' ' && c != '-')
      return false;
    else if (c == '\n' || c == '\\' || c == '!')
      return false;
  }
  return !quoted;
}

}  // namespace

TEST_CASE("every ssh option finds its place and the host stands behind --") {
  SshOptions options;
  options.program = "/usr/bin/ssh";
  options.user = "train";
  options.port = 2222;
  options.identity_file = "/home/u/my key";
  options.connect_timeout_ms = 2500;
  options.extra_arguments = {"-J", "gate", "-o", "BatchMode=no"};
  const auto argv = launcher::ssh_start_command(options, "node1", kProgram);
  CHECK(argv.front() == "/usr/bin/ssh");
  CHECK(has_pair(argv, "-l", "train"));
  CHECK(has_pair(argv, "-p", "2222"));
  CHECK(has_pair(argv, "-i", "/home/u/my key"));
  CHECK(has_pair(argv, "-o", "BatchMode=yes"));
  CHECK(has_pair(argv, "-o", "ConnectTimeout=3"));
  CHECK(has_pair(argv, "-J", "gate"));
  REQUIRE(argv.size() > 3);
  CHECK(argv[argv.size() - 3] == "--");
  CHECK(argv[argv.size() - 2] == "node1");
}

TEST_CASE("the user's own ssh options come first, where ssh lets them win") {
  SshOptions options;
  options.extra_arguments = {"-o", "BatchMode=no"};
  const auto argv = launcher::ssh_prefix(options, "h");
  const auto place = [&](const std::string& text) { return std::find(argv.begin(), argv.end(), text); };
  CHECK(place("BatchMode=no") < place("BatchMode=yes"));
}

TEST_CASE("host key checking is left to ssh") {
  for (const auto& word : launcher::ssh_prefix({}, "h")) {
    CHECK(word.find("HostKey") == std::string::npos);
    CHECK(word.find("KnownHosts") == std::string::npos);
  }
}

TEST_CASE("the remote line is a constant in single quotes with checked parameters") {
  for (const char* path :
       {"/opt/et/elastictrain", "/home/a b/$(reboot)/`x`;rm -rf ~/x", "/it's/\\here!", "/new\nline"}) {
    CAPTURE(path);
    const launcher::AgentProgram program{path, "0.1.0-00ff"};
    CHECK(is_safe_line(launcher::ssh_start_command({}, "h", program).back()));
    CHECK(is_safe_line(launcher::ssh_copy_command({}, "h", program, 12345, "abc").back()));
  }
  const auto line = launcher::ssh_start_command({}, "h", {"/a'; reboot '", "id"}).back();
  CHECK(line.find("reboot") == std::string::npos);
}

// The exit status of a start where this is the binary: 7 if it was started, 86 if it was not.
int status_of_start(const std::string& binary, const std::string& home) {
  const auto line = launcher::ssh_start_command({}, "h", {binary, "id"}).back();
  const pid_t shell = ::fork();
  if (shell == 0) {
    ::setenv("HOME", home.c_str(), 1);
    ::execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    ::_exit(1);
  }
  int status = 0;
  ::waitpid(shell, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_CASE("a binary that somebody else could have changed is not started") {
  const elastictrain::test::TemporaryDirectory folder;
  const std::string binary = folder.path + "/bin/elastictrain";
  std::filesystem::create_directory(folder.path + "/bin");
  std::ofstream(binary) << "#!/bin/sh\n[ \"$1\" = --build-id ] && echo id || exit 7\n";
  const auto start_with = [&](mode_t file, mode_t directory) {
    REQUIRE(::chmod(binary.c_str(), file) == 0);
    REQUIRE(::chmod((folder.path + "/bin").c_str(), directory) == 0);
    return status_of_start(binary, folder.path);
  };
  CHECK(start_with(0755, 0755) == 7);
  CHECK(start_with(0700, 0700) == 7);
  CHECK(start_with(0775, 0755) == launcher::kNoBinaryStatus);
  CHECK(start_with(0757, 0755) == launcher::kNoBinaryStatus);
  CHECK(start_with(0755, 0775) == launcher::kNoBinaryStatus);
  CHECK(start_with(0755, 0777) == launcher::kNoBinaryStatus);
  CHECK(start_with(0755, 01777) == 7);  // as in /tmp, others replace nothing
  if (::geteuid() != 0) return;
  REQUIRE(::chown(binary.c_str(), 65534, 65534) == 0);
  CHECK(start_with(0755, 0755) == launcher::kNoBinaryStatus);
}

TEST_CASE("options that ssh could misread are refused") {
  SshOptions options;
  CHECK(launcher::check_ssh_options(options).ok());
  options.user = "-oProxyCommand=x";
  CHECK_FALSE(launcher::check_ssh_options(options).ok());
  options.user = "good";
  CHECK(launcher::check_ssh_options(options).ok());
  options.parallelism = 0;
  CHECK_FALSE(launcher::check_ssh_options(options).ok());
  options.parallelism = 1;
  options.program.clear();
  CHECK_FALSE(launcher::check_ssh_options(options).ok());
}
