// `elastictrain resize`: requests another number of workers. Training continues during the change.
#include <memory>
#include <utility>

#include "cli/commands/change_wait.h"
#include "cli/commands/command.h"
#include "cli/commands/run_and_value.h"
#include "cli/commands/run_client.h"
#include "cli/config/text.h"

namespace elastictrain::cli {
namespace {

constexpr const char* kPolicyDecides = "auto";

Status read_duration(const std::string& text, std::uint64_t& ms) {
  const auto duration = parse_duration_ms(text);
  if (!duration.ok()) return wrong_usage("--for: " + duration.error().message);
  if (*duration == 0) return wrong_usage("--for: a size is held for more than 0 s; write for example --for 10m");
  ms = *duration;
  return {};
}

Result<std::uint64_t> read_size(const std::string& text) {
  if (text == kPolicyDecides) return std::uint64_t{0};
  const auto workers = parse_whole_number(text);
  if (!workers) {
    return wrong_usage("'" + text + "' is not a number of workers; write a whole number, e.g. elastictrain resize 4");
  }
  if (*workers == 0) return wrong_usage("the minimum is 1 worker; to end the run: elastictrain stop");
  return *workers;
}

}  // namespace

Command make_resize(Invocation& invocation) {
  const ValueArgument size = {"N", "number of workers; auto: a policy decides again", "say how many workers",
                              "elastictrain resize 4"};
  const auto hold_ms = std::make_shared<std::uint64_t>(0);
  const auto wait = std::make_shared<WaitFlags>();
  const auto use = [&invocation, hold_ms, wait](const RunAndValue& request) -> Status {
    const auto workers = read_size(request.value);
    if (!workers.ok()) return workers.error();
    if (*workers == 0 && *hold_ms != 0) return wrong_usage("--for says how long N is held; leave it out with auto");
    nlohmann::json message{{"command", "resize"}, {"workers", *workers}};
    if (*hold_ms != 0) message["for_ms"] = *hold_ms;
    invocation.action = [run = request.run, message, wait] { return ask_and_wait(run, message, *wait); };
    return {};
  };
  Command command = client_command("resize", "grow or shrink to N workers while training goes on", size, use);
  command.arguments.push_back(value("--for", "DURATION",
                                    "with a policy: hold N for this long (10m, 1h30m), not until resize auto",
                                    [hold_ms](const std::string& text) { return read_duration(text, *hold_ms); }));
  for (Argument& argument : wait_arguments(*wait, kWaitForChange)) command.arguments.push_back(std::move(argument));
  return command;
}

}  // namespace elastictrain::cli
