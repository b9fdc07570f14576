#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "cli/commands/clients/change_request.h"
#include "cli/commands/command.h"
#include "cli/commands/exit_code.h"
#include "cli/commands/run/resume.h"
#include "cli/commands/run_client.h"
#include "cli/config/text.h"
#include "supervisor/control/control_client.h"
#include "supervisor/protocol/display_text.h"
#include "supervisor/protocol/names.h"

// `elastictrain resize`: requests another number of workers. Training continues during the change.

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

// `elastictrain replace`: starts a new worker for a rank, or moves the workers of a host elsewhere.

Command make_replace(Invocation& invocation) {
  const ValueArgument place = {"RANK|HOST", "rank of the worker, or a host", "say which rank or host to replace",
                               "elastictrain replace 1"};
  const auto wait = std::make_shared<WaitFlags>();
  const auto use = [&invocation, wait](const RunAndValue& request) -> Status {
    nlohmann::json order = {{"command", "replace"}};
    if (const auto rank = parse_whole_number(request.value)) {
      order["rank"] = *rank;
    } else {
      order["host"] = request.value;
    }
    invocation.action = [request, order, wait] { return ask_and_wait(request.run, order, *wait); };
    return {};
  };
  Command command =
      client_command("replace", "a new worker takes the place of a rank, or of those on a host", place, use);
  for (Argument& argument : wait_arguments(*wait, kWaitForChange)) command.arguments.push_back(std::move(argument));
  return command;
}

// `elastictrain drain` and `undrain`: move every worker off a host, and let workers start there again.
namespace {

Command host_command(Invocation& invocation, const std::string& name, const std::string& help,
                     const ValueArgument& host) {
  const auto use = [&invocation, name](const RunAndValue& request) -> Status {
    invocation.action = [request, name] {
      return ask_and_print(request.run, {{"command", name}, {"host", request.value}});
    };
    return {};
  };
  return client_command(name, help, host, use);
}

}  // namespace

Command make_drain(Invocation& invocation) {
  return host_command(invocation, "drain", "move every worker off a host, and start none there until it is undrained",
                      {"HOST", "host, as status lists it", "say which host to drain", "elastictrain drain hostA"});
}

Command make_undrain(Invocation& invocation) {
  return host_command(
      invocation, "undrain", "let workers start on a drained host again",
      {"HOST", "host, as status lists it", "say which host to use again", "elastictrain undrain hostA"});
}

// `elastictrain topology`: changes the topology of the gradient all-reduce. Training continues during the change.

Command make_topology(Invocation& invocation) {
  std::string names;
  for (const auto name : protocol::kTopologyNames) names += (names.empty() ? "" : ", ") + std::string(name);
  const std::string shapes = names + ", or the parent of each rank (1,1,1)";
  const ValueArgument shape = {"SHAPE", shapes, "say which topology", "elastictrain topology ring"};
  const auto use = [&invocation, shapes](const RunAndValue& request) -> Status {
    if (!protocol::topology_choice(request.value)) {
      return wrong_usage("'" + request.value + "' is not a topology; write " + shapes);
    }
    invocation.action = [request] {
      return ask_and_print(request.run, {{"command", "topology"}, {"topology", request.value}});
    };
    return {};
  };
  return client_command("topology", "change the topology of the all-reduce while training continues", shape, use);
}

// `elastictrain stop`: ends the run at the next step boundary, or at once.
namespace {

constexpr std::chrono::milliseconds kLookForEnd{50};

struct StopFlags {
  std::string name;
  bool now = false;
  WaitFlags wait;
};

void say_way_back(const std::string& directory) {
  const auto recorded = find_recorded(directory);
  if (!recorded || recorded->config.checkpoint.directory.empty()) return;
  std::cout << "continue later with: elastictrain run --resume " << std::filesystem::path(directory).filename().string()
            << "\n";
}

// Until the run has ended. Its processes are over before it says so.
Result<RunRecord> wait_for_end(const std::string& directory, const StopFlags& flags) {
  const std::chrono::milliseconds timeout(flags.wait.timeout_ms);
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (std::chrono::steady_clock::now() < deadline) {
    // Asked first: the record of the end is written while the run still answers.
    const bool lives = control::is_live(directory);
    auto record = load_run_record(directory);
    if (record.ok() && record->end) return record;
    if (!lives) return lost_supervisor(std::filesystem::path(directory).filename());
    std::this_thread::sleep_for(kLookForEnd);
  }
  return Error{ErrorCode::kTimeout,
               "the run has not ended within " + protocol::duration_text(timeout) +
                   "; it is still stopping: elastictrain status; end it at once with: " + "elastictrain stop --now"};
}

int stop(const StopFlags& flags) {
  const auto directory = find_live_run(flags.name);
  if (!directory.ok()) return complain("stop", directory.error());
  const int status = ask_and_print(flags.name, {{"command", "stop"}, {"now", flags.now}});
  if (status != kExitSuccess) return status;
  int result = kExitSuccess;
  if (flags.wait.wait) {
    const auto ended = wait_for_end(*directory, flags);
    if (!ended.ok()) return complain("stop", ended.error());
    std::cout << how_it_ended(*ended) << "\n";
    result = ended->end->exit_status == kExitSuccess ? kExitSuccess : kExitFailure;
  }
  say_way_back(*directory);
  return result;
}

}  // namespace

Command make_stop(Invocation& invocation) {
  const auto flags = std::make_shared<StopFlags>();
  std::vector<Argument> arguments = {
      word("run", "[NAME]", "name of the run, when several are live", flags->name),
      flag("--now", "send TERM to the workers at once, KILL after timeouts.grace_ms", flags->now)};
  for (Argument& one :
       wait_arguments(flags->wait, "return when the run has ended, with status 1 if it did not end with 0"))
    arguments.push_back(std::move(one));
  return {"stop", "end the run at the next step boundary", kGroupClient, std::move(arguments),
          always(invocation, [flags] { return stop(*flags); })};
}

}  // namespace elastictrain::cli
