// Purpose: signals as people know them. Pure.
#pragma once

#include <csignal>
#include <cstring>
#include <string>

namespace elastictrain::protocol {

// "signal 9 (SIGKILL)"; a real-time signal has its number only.
inline std::string signal_text(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return "signal " + std::to_string(signal) + (name == nullptr ? "" : " (SIG" + std::string(name) + ")");
}

}  // namespace elastictrain::protocol
