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
#include "cli/config/text.h"
#include "cli/output/printable.h"
#include "cli/parser.h"
#include "cli/process_start.h"
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

// torchrun knows --nproc-per-node and --nproc_per_node.
std::string with_dashes(std::string word) {
  if (!word.starts_with("--")) return word;
  std::replace(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(std::min(word.find('='), word.size())), '_',
               '-');
  return word;
}

// "--nnodes" and "-t", but neither "--nnodes=2" nor "-t3".
bool takes_next_word(const Command& command, const std::string& word) {
  return std::any_of(command.arguments.begin(), command.arguments.end(), [&](const Argument& argument) {
    const auto names = split(argument.names, ',');
    return argument.kind != Argument::Kind::kFlag && std::find(names.begin(), names.end(), word) != names.end();
  });
}

void split_off_script(const Command& command, std::vector<std::string>& arguments, std::vector<std::string>& program) {
  std::size_t place = 1;
  while (place < arguments.size() && arguments[place].starts_with('-') && arguments[place] != "--") {
    arguments[place] = with_dashes(arguments[place]);
    place += takes_next_word(command, arguments[place]) ? 2 : 1;
  }
  place = std::min(place, arguments.size());
  const bool dashes = place < arguments.size() && arguments[place] == "--";
  program.assign(arguments.begin() + static_cast<std::ptrdiff_t>(place + (dashes ? 1 : 0)), arguments.end());
  arguments.resize(place);
}

// Empty: the limits of this process are not the reason.
std::string_view remedy_for(int error_number) {
  if (error_number == EMFILE || error_number == ENFILE) return "; raise the limit of open files with ulimit -n";
  if (error_number == EAGAIN) return "; raise the limit of processes and threads with ulimit -u";
  return "";
}

}  // namespace

std::vector<std::string> prepare_arguments(const std::vector<Command>& commands, std::vector<std::string> arguments,
                                           std::vector<std::string>& program) {
  if (!arguments.empty() && arguments.front() == "torchrun") {
    const auto command =
        std::find_if(commands.begin(), commands.end(), [](const Command& one) { return one.name == "torchrun"; });
    if (command != commands.end()) split_off_script(*command, arguments, program);
    return arguments;
  }
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
  if (const Status prepared = prepare_process(); !prepared.ok()) {
    std::cerr << "elastictrain: " << prepared.error().message << "\n";
    return kExitUnavailable;
  }
  // Ignore SIGPIPE: when the reader of our output is gone, each write returns an error and the run continues.
  std::signal(SIGPIPE, SIG_IGN);
  // Ignore SIGXFSZ: a file that reached its size limit (ulimit -f) is then reported like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  const PrintableStream out(std::cout);
  const PrintableStream error_messages(std::cerr);
  try {
    Invocation invocation;
    const std::vector<Command> commands = all_commands(invocation);
    auto arguments = prepare_arguments(commands, {argv + 1, argv + argc}, invocation.program);
    const ProgramText program = {"elastictrain " ELASTICTRAIN_VERSION, launcher::build_id(), kExamples};
    if (const auto status = parse_arguments(commands, program, arguments)) return *status;
    if (!invocation.instead.empty()) {
      arguments = std::move(invocation.instead);
      if (const auto status = parse_arguments(commands, program, arguments)) return *status;
    }
    return invocation.action();
  } catch (const std::system_error& error) {
    const std::string_view remedy = remedy_for(error.code().value());
    std::cerr << "elastictrain: " << (remedy.empty() ? "internal error: " : "") << error.what() << remedy << "\n";
    return remedy.empty() ? kExitInternal : kExitUnavailable;
  } catch (const std::exception& error) {
    std::cerr << "elastictrain: internal error: " << error.what() << "\n";
    return kExitInternal;
  }
}

}  // namespace elastictrain::cli
