// Purpose: conditions that must hold before and after a change of state, also in release builds. A violated one is an
// error of this program: it says so on standard error, lets the process record it, and ends the process with status 70
// before it acts on a wrong state. The run survives that as any other loss of the process.
//
//   ET_CHECK(waiting.empty(), "a change is committed when every worker is prepared");
//
// Thread: any one. The handler is set once, by the thread that runs the process's state machine, and may use only what
// that thread owns.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>
#include <utility>

namespace elastictrain {

inline constexpr int kExitViolation = 70;

// Called with what must have held and where, before the process ends.
using ViolationHandler = std::function<void(const std::string& what)>;

namespace checking {

inline ViolationHandler& handler() {
  static ViolationHandler current;
  return current;
}

// A handler that violates a condition itself is not called again.
[[noreturn]] inline void violated(const char* condition, const char* what, const char* file, int line) {
  const std::string text =
      std::string(what) + " (" + condition + " is false, " + file + ":" + std::to_string(line) + ")";
  std::fprintf(stderr, "elastictrain: internal error: %s. Please report this.\n", text.c_str());
  if (const ViolationHandler record = std::exchange(handler(), nullptr)) record(text);
  ::_exit(kExitViolation);
}

}  // namespace checking

inline void on_violation(ViolationHandler handler) {
  checking::handler() = std::move(handler);
}

#define ET_CHECK(condition, what) \
  ((condition) ? static_cast<void>(0) : ::elastictrain::checking::violated(#condition, what, __FILE__, __LINE__))

}  // namespace elastictrain
