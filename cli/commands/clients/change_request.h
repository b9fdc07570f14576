// Purpose: requests that change a live run: the arguments that such commands share, and the wait until the change is
// complete.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands/command.h"
#include "cli/output/file_follow.h"
#include "supervisor/protocol/result.h"

// The arguments "[NAME] VALUE" of the commands that change a run. The run's name comes first, and may be
// omitted if only one run is live.

namespace elastictrain::cli {

struct RunAndValue {
  std::string run;
  std::string value;
};

// The value as users know it.
struct ValueArgument {
  const char* type;     // in the usage line: "N"
  std::string help;     // "number of workers"
  const char* missing;  // the request where there is none: "say how many workers"
  const char* example;  // a whole command
};

// The command `name` of that kind. `use` gets the arguments once the command line is read, and returns what is wrong
// with the value.
Command client_command(std::string name, std::string help, const ValueArgument& argument,
                       std::function<Status(const RunAndValue&)> use);

// Waits until a change that was asked for is complete: `resize --wait`, `replace --wait`. Thread: the
// caller's. Errors: why the change will not come about, or that the time is over.

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
