#include "launcher/process/process_identity.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace elastictrain::launcher {

std::string boot_id() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return boot;
}

namespace {

// A stat line is about 300 bytes; its name has at most 64.
constexpr std::size_t kMaxStatBytes = 1024;

std::uint64_t to_ms(unsigned long long ticks) {
  static const auto ticks_per_s = static_cast<unsigned long long>(::sysconf(_SC_CLK_TCK));
  return ticks * 1000 / ticks_per_s;
}

}  // namespace

// The name in parentheses may contain any character, so the fields are read after the last parenthesis.
std::optional<ProcessStat> parse_process_stat(const std::string& line) {
  const auto name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  ProcessStat stat;
  int group = 0;
  unsigned long long user = 0;
  unsigned long long system = 0;
  unsigned long long start = 0;
  const int read = std::sscanf(line.c_str() + name_end + 1,
                               " %c %d %d %d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %*d %*d %llu",
                               &stat.state, &stat.parent, &group, &stat.session, &user, &system, &start);
  if (read != 7) return std::nullopt;
  stat.cpu_ms = to_ms(user + system);
  stat.start_ticks = start;
  return stat;
}

std::optional<ProcessStat> read_process_stat(const std::string& directory) {
  const int file = ::open((directory + "/stat").c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  char text[kMaxStatBytes];
  const ssize_t count = ::read(file, text, sizeof text);
  ::close(file);
  if (count <= 0) return std::nullopt;
  return parse_process_stat({text, static_cast<std::size_t>(count)});
}

std::optional<ProcessStat> read_process_stat(pid_t pid) {
  return read_process_stat("/proc/" + std::to_string(pid));
}

std::uint64_t resident_bytes(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  std::uint64_t all = 0;
  std::uint64_t resident = 0;
  if (!(file >> all >> resident)) return 0;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

namespace {

std::string mark_of(pid_t pid, const ProcessStat& stat) {
  return boot_id() + ":" + std::to_string(pid) + ":" + std::to_string(stat.start_ticks);
}

}  // namespace

std::string process_mark(pid_t pid) {
  const auto stat = pid > 0 ? read_process_stat(pid) : std::nullopt;
  return stat ? mark_of(pid, *stat) : "";
}

// The pidfd is opened before the comparison: the process that gets the signal is the one that was compared.
bool signal_started(pid_t pid, std::uint64_t start_ticks, int number) {
  const int process = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (process < 0) return false;
  const auto stat = read_process_stat(pid);
  const bool same = stat && stat->start_ticks == start_ticks && stat->state != 'Z';
  const bool sent = same && ::syscall(SYS_pidfd_send_signal, process, number, nullptr, 0) == 0;
  ::close(process);
  return sent;
}

bool signal_marked(pid_t pid, const std::string& mark, int number) {
  const auto stat = pid > 0 ? read_process_stat(pid) : std::nullopt;
  return stat && mark_of(pid, *stat) == mark && signal_started(pid, stat->start_ticks, number);
}

}  // namespace elastictrain::launcher
