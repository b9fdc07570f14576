// Purpose: how a run starts: its hosts, its first workers, and whether its program uses the library. Plain data.
//
// Ownership and thread: those of the state machine.
#pragma once

#include <cstdint>

#include "supervisor/protocol/ids.h"

namespace elastictrain::core {

struct Startup {
  bool hosts_known = false;
  bool expired = false;    // no more hosts are waited for
  bool last_call = false;  // there are enough, and more are waited for: settings' last_call
  bool spawned = false;
  Instant spawned_at;
  int program_status = 0;            // 126 or 127: the program could not be run on a host
  bool elastic = false;              // a worker sent hello: the program uses the library
  Millis newest_start{0};            // of the newest worker, until it was ready
  std::uint32_t first_size = 0;      // workers started at first
  std::uint32_t plain_finished = 0;  // processes of a program that does not use it
  std::uint32_t plain_restarts = 0;
  bool clearing = false;        // the processes of before such a restart are still ending
  bool fixed = false;           // its program has not used the library for so long that it never will
  std::uint64_t timer = 0;      // kStart
  std::uint64_t min_timer = 0;  // kWaitForMin: while too few workers are left

  // As far as is known: a program that does not use the library, of fixed size.
  bool is_plain() const { return spawned && !elastic; }
};

// A run that is taken over.
struct TakeoverState {
  bool waiting = false;    // not all agents are back
  bool unsettled = false;  // the supervisor before was lost in the middle of a change
};

}  // namespace elastictrain::core
