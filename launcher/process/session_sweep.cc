#include "launcher/process/session_sweep.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <unordered_map>

#include "launcher/process/process.h"
#include "launcher/process/process_identity.h"

namespace elastictrain::launcher {
namespace {

struct ProcessEntry {
  pid_t pid = 0;
  ProcessStat stat;
};

std::vector<ProcessEntry> list_processes() {
  std::vector<ProcessEntry> entries;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir("/proc"), ::closedir);
  if (!directory) return entries;
  while (const dirent* item = ::readdir(directory.get())) {
    const auto pid = static_cast<pid_t>(std::atoi(item->d_name));
    if (pid <= 0) continue;
    if (const auto stat = read_process_stat(pid)) entries.push_back({pid, *stat});
  }
  return entries;
}

}  // namespace

std::vector<pid_t> session_members(pid_t session) {
  std::vector<pid_t> members;
  for (const auto& entry : list_processes()) {
    if (entry.stat.session == session && entry.pid != ::getpid() && entry.stat.state != 'Z')
      members.push_back(entry.pid);
  }
  return members;
}

void kill_session(pid_t session) {
  for (const pid_t pid : session_members(session)) ::kill(pid, SIGKILL);
}

std::vector<pid_t> descendants(pid_t root) {
  std::unordered_map<pid_t, std::vector<pid_t>> children;
  for (const auto& entry : list_processes()) {
    if (entry.stat.state != 'Z') children[entry.stat.parent].push_back(entry.pid);
  }
  std::vector<pid_t> found = children[root];
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto next = children[found[i]];
    found.insert(found.end(), next.begin(), next.end());
  }
  return found;
}

void reap_adopted() {
  for (;;) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return;
    // A child of a Process is first in the kernel's list until its watcher reaps it; the rest waits for the next call.
    if (info.si_pid == 0 || is_watched_child(info.si_pid)) return;
    ::waitpid(info.si_pid, nullptr, WNOHANG);
  }
}

}  // namespace elastictrain::launcher
