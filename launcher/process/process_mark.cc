#include "launcher/process/process_mark.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "launcher/process/boot_id.h"
#include "launcher/process/process_stat.h"

namespace elastictrain::launcher {

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
