// Purpose: the kernel's data about a process, and identities that are never used again: of a start of this machine
// and of a process.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

// Tells the starts of this machine apart.
// Thread: any one.

namespace elastictrain::launcher {

// Another one after each start of the machine; empty if it cannot be read.
std::string boot_id();

// The kernel's data about one process or thread in /proc/…/stat, and the only place that reads its format.
// Thread: any; one short read that does not block. Errors: no value if the process is gone or unreadable.

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

// Names a process for good. A pid is used again after its process has ended; a mark never is, nor by a later
// start of the machine. Thread: any; short reads that do not block. Errors: an empty mark, or false.

// Empty: there is no such process.
std::string process_mark(pid_t pid);

// To the process that has started at this time (ProcessStat::start_ticks) only. False: it has ended, or waits for its
// parent.
bool signal_started(pid_t pid, std::uint64_t start_ticks, int number);
// To the process of this mark only. False: it has ended, or the mark is empty.
bool signal_marked(pid_t pid, const std::string& mark, int number);

}  // namespace elastictrain::launcher
