// Purpose: assertions of what must hold before and after state is changed, active in every build. A violated one is a
// bug of elastictrain. The process that holds the broken state ends at once, so that nothing wrong leaves it, and the
// run survives it as any loss of that process.
//
//   ET_CHECK(step.counted <= step.cut.total, "a step counts no more samples than it has");
//
// Thread: any. Failure: ET_CHECK prints file, line and the sentence on standard error, calls the observer, and ends the
// process with status 70 without destructors or exit handlers. The condition must have no side effects.
#pragma once

namespace elastictrain {

inline constexpr int kViolationStatus = 70;  // EX_SOFTWARE

// Receives "file:line: must hold: ..." before the process ends, to write a last record. It must not wait for other
// threads. It is called once, even if it violates an assertion itself.
using ViolationObserver = void (*)(const char* text);
void set_violation_observer(ViolationObserver observer);

// The end of a process whose state is wrong: what standard output has is written, nothing else is done.
[[noreturn]] void leave_process();
[[noreturn]] void end_on_violation(const char* file, int line, const char* what);

}  // namespace elastictrain

#define ET_CHECK(condition, what)                                 \
  do {                                                            \
    if (!(condition)) [[unlikely]]                                \
      ::elastictrain::end_on_violation(__FILE__, __LINE__, what); \
  } while (false)
