// Purpose: ends a process whose exit handlers must not run (those of the program that it was forked from, those of an
// MPI that has lost ranks), but still runs the leak check that they would run in a build with AddressSanitizer.
// Errors: a leak is reported on standard error and ends the process with a status that no test expects.
#pragma once

#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace elastictrain::testing {

inline constexpr int kLeakStatus = 78;

[[noreturn]] inline void end_quickly(int status) {
#if defined(__SANITIZE_ADDRESS__)
  if (__lsan_do_recoverable_leak_check() != 0) ::_exit(kLeakStatus);
#endif
  ::_exit(status);
}

}  // namespace elastictrain::testing
