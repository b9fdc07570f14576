#include "cli/commands/detach.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "cli/commands/exit_code.h"

namespace elastictrain::cli {
namespace {

// Of the child, for the handler.
volatile pid_t child_of_command = 0;

void pass_on(int signal) {
  const int kept = errno;
  ::kill(child_of_command, signal);
  errno = kept;
}

// A terminal sends INT to both processes; the child decides what it means.
void leave_signals_to(pid_t child) {
  child_of_command = child;
  std::signal(SIGINT, SIG_IGN);
  struct sigaction action {};
  action.sa_handler = pass_on;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
}

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 256> block;
  for (;;) {
    const ssize_t count = ::read(descriptor, block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(block.data(), static_cast<std::size_t>(count));
  }
}

int status_of_child(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return kExitInternal;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int wait_until_begun(pid_t child, int notice) {
  leave_signals_to(child);
  const std::string name = read_all(notice);
  ::close(notice);
  if (name.empty()) return status_of_child(child);
  std::cerr << "elastictrain: run " << name << " trains detached, process " << child << "; look: elastictrain status "
            << name << ", elastictrain logs -f " << name << "; end it: elastictrain stop " << name << "\n";
  return kExitSuccess;
}

int cannot(const char* what) {
  std::cerr << "elastictrain run: --detach: cannot " << what << ": " << std::strerror(errno) << "\n";
  return kExitUnavailable;
}

}  // namespace

Detachment::~Detachment() {
  if (notice_ >= 0) ::close(notice_);
}

void Detachment::begun(const std::string& run_name) {
  if (notice_ < 0) return;
  ::setsid();
  const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (nowhere >= 0) ::dup2(nowhere, standard);
  }
  if (nowhere > STDERR_FILENO) ::close(nowhere);
  // A command that is gone already needs no notice.
  (void)!::write(notice_, run_name.data(), run_name.size());
  ::close(notice_);
  notice_ = -1;
}

int run_detached(const std::function<int(Detachment&)>& run) {
  std::array<int, 2> notice{};
  if (::pipe2(notice.data(), O_CLOEXEC) != 0) return cannot("make a pipe");
  const pid_t child = ::fork();
  if (child < 0) return cannot("start a process");
  if (child > 0) {
    ::close(notice[1]);
    return wait_until_begun(child, notice[0]);
  }
  ::close(notice[0]);
  int status = 0;
  {
    Detachment detachment(notice[1]);
    status = run(detachment);
  }
  std::cout.flush();
  std::_Exit(status);
}

}  // namespace elastictrain::cli
