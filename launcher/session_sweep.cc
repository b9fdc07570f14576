#include "launcher/session_sweep.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <unordered_map>

namespace elastictrain::launcher {
namespace {

struct ProcessEntry {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t session = 0;
  char state = '?';
};

// The name in parentheses may hold anything, so the fields are read after its last parenthesis.
bool parse_stat(const std::string& text, ProcessEntry& entry) {
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos) return false;
  int group = 0;
  return std::sscanf(text.c_str() + name_end + 1, " %c %d %d %d", &entry.state, &entry.parent, &group,
                     &entry.session) == 4;
}

std::vector<ProcessEntry> list_processes() {
  std::vector<ProcessEntry> entries;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir("/proc"), ::closedir);
  if (!directory) return entries;
  while (const dirent* item = ::readdir(directory.get())) {
    ProcessEntry entry;
    entry.pid = static_cast<pid_t>(std::atoi(item->d_name));
    if (entry.pid <= 0) continue;
    std::ifstream file("/proc/" + std::string(item->d_name) + "/stat");
    std::string text;
    if (std::getline(file, text) && parse_stat(text, entry)) entries.push_back(entry);
  }
  return entries;
}

}  // namespace

std::vector<pid_t> session_members(pid_t session) {
  std::vector<pid_t> members;
  for (const auto& entry : list_processes()) {
    if (entry.session == session && entry.pid != ::getpid() && entry.state != 'Z') members.push_back(entry.pid);
  }
  return members;
}

void kill_session(pid_t session) {
  for (const pid_t pid : session_members(session)) ::kill(pid, SIGKILL);
}

std::vector<pid_t> descendants(pid_t root) {
  std::unordered_map<pid_t, std::vector<pid_t>> children;
  for (const auto& entry : list_processes()) {
    if (entry.state != 'Z') children[entry.parent].push_back(entry.pid);
  }
  std::vector<pid_t> found = children[root];
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto next = children[found[i]];
    found.insert(found.end(), next.begin(), next.end());
  }
  return found;
}

void reap_adopted(const std::function<bool(pid_t)>& is_ours) {
  for (;;) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return;
    // One of ours stands first in the kernel's list until its watcher takes it; the rest waits for the next call.
    if (info.si_pid == 0 || is_ours(info.si_pid)) return;
    ::waitpid(info.si_pid, nullptr, WNOHANG);
  }
}

}  // namespace elastictrain::launcher
