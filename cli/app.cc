#include "cli/app.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <exception>
#include <iostream>
#include <system_error>

#include "cli/commands/exit_code.h"
#include "cli/commands/run_flags.h"
#include "cli/config/run_config.h"
#include "cli/parser.h"
#include "cli/run_cli.h"
#include "launcher/build_id.h"

namespace elastictrain::cli {
namespace {

constexpr const char* kExamples = R"(
Examples:
  elastictrain run -n 2:4 -H hostA:2,hostB:2 -- ./train --epochs 5
  elastictrain run configs/quickstart.toml
  elastictrain status --watch
  elastictrain resize 4

Exit status: 0 done; 1-125 and 128+signal: status of the first failing worker; 64 wrong usage; 69 hosts or run not
available; 70 internal error; 75 preempted, start again later; 78 mistake in the config; 130 Ctrl-C.
)";

bool is_bare_label(const std::string& word) {
  return word == "-l" || word == "--label";
}

// "--resume" without a name. The name after it is optional.
bool is_bare_resume(const std::vector<std::string>& words, std::size_t place) {
  if (words[place] != "--resume") return false;
  if (place + 1 == words.size()) return true;
  const std::string& next = words[place + 1];
  return next.starts_with('-') || next.ends_with(".toml");
}

}  // namespace

std::vector<std::string> prepare_arguments(std::vector<std::string> arguments, std::vector<std::string>& program) {
  const bool takes_program =
      !arguments.empty() && (arguments.front() == "run" || arguments.front() == "check" || arguments.front() == "plan");
  if (!takes_program) return arguments;
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  if (dashes != arguments.end()) program.assign(dashes + 1, arguments.end());
  arguments.erase(dashes, arguments.end());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (is_bare_label(arguments[i])) arguments[i] = "--label=" + LogConfig{}.label;
    if (is_bare_resume(arguments, i)) arguments[i] = std::string("--resume=") + kAnyRun;
  }
  return arguments;
}

int run_cli(int argc, char** argv) {
  // Ignore SIGPIPE: when the reader of our output is gone, each write returns an error and the run continues.
  std::signal(SIGPIPE, SIG_IGN);
  // Ignore SIGXFSZ: a file that reached its size limit (ulimit -f) is then reported like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    Invocation invocation;
    const std::vector<Command> commands = all_commands(invocation);
    const auto arguments = prepare_arguments({argv + 1, argv + argc}, invocation.program);
    const ProgramText program = {"elastictrain " ELASTICTRAIN_VERSION, launcher::build_id(), kExamples};
    if (const auto status = parse_arguments(commands, program, arguments)) return *status;
    return invocation.action();
  } catch (const std::system_error& error) {
    const bool no_descriptors = error.code().value() == EMFILE || error.code().value() == ENFILE;
    std::cerr << "elastictrain: " << (no_descriptors ? "" : "internal error: ") << error.what()
              << (no_descriptors ? "; raise the limit of open files with ulimit -n" : "") << "\n";
    return no_descriptors ? kExitUnavailable : kExitInternal;
  } catch (const std::exception& error) {
    std::cerr << "elastictrain: internal error: " << error.what() << "\n";
    return kExitInternal;
  }
}

}  // namespace elastictrain::cli
