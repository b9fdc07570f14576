// Purpose: waits until a change that was asked for is complete: `resize --wait`, `replace --wait`. Thread: the
// caller's. Errors: why the change will not come about, or that the time is over.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands/command.h"
#include "cli/output/file_follow.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::cli {

struct WaitFlags {
  bool wait = false;
  std::uint64_t timeout_ms = 600'000;
};

inline constexpr const char* kWaitForChange = "return when the change is complete, with status 1 if it fails";

// "--wait", with what it does for help, and "--timeout".
std::vector<Argument> wait_arguments(WaitFlags& flags, const char* help);

// As ask_and_print(), then the wait. Returns the exit status.
int ask_and_wait(const std::string& run_name, const nlohmann::json& request, const WaitFlags& flags);

// Whether the status shows the change that was asked for. `before`: the status when it was asked for.
using IsDone = std::function<bool(const nlohmann::json& status)>;
IsDone is_done(const nlohmann::json& request, const nlohmann::json& before);

}  // namespace elastictrain::cli
