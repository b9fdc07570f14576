#include "launcher/process/process_mark.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "launcher/process/boot_id.h"
#include "launcher/process/process_stat.h"

namespace elastictrain::launcher {

std::string process_mark(pid_t pid) {
  const auto stat = pid > 0 ? read_process_stat(pid) : std::nullopt;
  return stat ? boot_id() + ":" + std::to_string(pid) + ":" + std::to_string(stat->start_ticks) : "";
}

// The pidfd is opened before the comparison: the process that gets the signal is the one that was compared.
bool signal_marked(pid_t pid, const std::string& mark, int number) {
  if (mark.empty()) return false;
  const int process = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (process < 0) return false;
  const bool sent = process_mark(pid) == mark && ::syscall(SYS_pidfd_send_signal, process, number, nullptr, 0) == 0;
  ::close(process);
  return sent;
}

}  // namespace elastictrain::launcher
