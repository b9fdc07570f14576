// Purpose: the kernel's data about one process or thread in /proc/…/stat, and the only place that reads its format.
// Thread: any; one short read that does not block. Errors: no value if the process is gone or unreadable.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace elastictrain::launcher {

struct ProcessStat {
  pid_t parent = 0;
  pid_t session = 0;
  char state = '?';               // as in ps: R, S, D, T (stopped), t (traced), Z, …
  std::uint64_t cpu_ms = 0;       // of all its threads, user and system
  std::uint64_t start_ticks = 0;  // since boot; together with the pid it identifies a process uniquely

  bool stopped() const { return state == 'T' || state == 't'; }
};

std::optional<ProcessStat> parse_process_stat(const std::string& line);
// `directory`: "/proc/PID" or "/proc/PID/task/TID".
std::optional<ProcessStat> read_process_stat(const std::string& directory);
std::optional<ProcessStat> read_process_stat(pid_t pid);
// In main memory, with what it shares with others; 0 if the process is gone.
std::uint64_t resident_bytes(pid_t pid);

}  // namespace elastictrain::launcher
