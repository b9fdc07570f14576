#include "cli/app.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <exception>
#include <iostream>
#include <string>
#include <system_error>

#include "cli/commands/exit_code.h"
#include "cli/commands/run_flags.h"
#include "cli/config/run_config.h"
#include "cli/config/text.h"
#include "cli/output/printable.h"
#include "cli/parser.h"
#include "launcher/agent_program.h"

namespace elastictrain::cli {
namespace {

// Threads get as much as the limit says.
constexpr rlim_t kLeastStackBytes = 512 << 10;

// The lowest number that is free is the one that open() gives.
void open_standard_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF) ::open("/dev/null", O_RDWR);
  }
}

}  // namespace

Status prepare_process() {
  open_standard_streams();
  rlimit stack{};
  if (::getrlimit(RLIMIT_STACK, &stack) != 0 || stack.rlim_cur >= kLeastStackBytes) return {};
  return Error{ErrorCode::kUnavailable, "the stack is limited to " + std::to_string(stack.rlim_cur >> 10) +
                                            " KiB, at least " + std::to_string(kLeastStackBytes >> 10) +
                                            " are needed; raise the limit with ulimit -s 8192"};
}

namespace {

constexpr const char* kExamples = R"(
Examples:
  elastictrain run -n 2:4 -H hostA:2,hostB:2 -- ./train --epochs 5
  elastictrain run configs/quickstart.toml
  elastictrain status --watch
  elastictrain resize 4

Exit status: 0 done; 1-125 and 128+signal: status of the first failing worker; 64 wrong usage;
66 a file cannot be read; 69 hosts or run not available; 70 internal error; 75 preempted, start again later;
78 mistake in the config; 126, 127 the program cannot be executed or found; 130 Ctrl-C.
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

// What people try first on any program.
void complete_common_words(std::vector<std::string>& arguments) {
  if (arguments.empty()) return;
  const std::string first = arguments.front();
  if (first == "version" || first == "-V") arguments.front() = "--version";
  if (first == "ps") arguments.front() = "list";
  if (first != "help") return;
  arguments.erase(arguments.begin());
  arguments.push_back("--help");
}

const Command* find_command(const std::vector<Command>& commands, const std::string& name) {
  const auto found =
      std::find_if(commands.begin(), commands.end(), [&](const Command& one) { return one.name == name; });
  return found == commands.end() ? nullptr : &*found;
}

// Cuts the program off at `place`; a "--" there belongs to neither.
void cut_program(std::vector<std::string>& arguments, std::size_t place, std::vector<std::string>& program) {
  place = std::min(place, arguments.size());
  const bool dashes = place < arguments.size() && arguments[place] == "--";
  program.assign(arguments.begin() + static_cast<std::ptrdiff_t>(place + (dashes ? 1 : 0)), arguments.end());
  arguments.resize(place);
}

void split_off_script(const Command& command, std::vector<std::string>& arguments, std::vector<std::string>& program) {
  std::size_t place = 1;
  while (place < arguments.size() && arguments[place].starts_with('-') && arguments[place] != "--") {
    arguments[place] = with_dashes(arguments[place]);
    place += takes_next_word(command, arguments[place]) ? 2 : 1;
  }
  cut_program(arguments, place, program);
}

// Gives -l, --label and --resume without a value the one that they mean.
void complete_bare_flag(std::vector<std::string>& arguments, std::size_t place) {
  if (is_bare_label(arguments[place])) arguments[place] = "--label=" + LogConfig{}.label;
  if (is_bare_resume(arguments, place)) arguments[place] = std::string("--resume=") + kAnyRun;
}

// The program begins after "--", or at the first word that is one.
void split_off_program(const Command& command, std::vector<std::string>& arguments, std::vector<std::string>& program) {
  std::size_t place = 1;
  while (place < arguments.size() && arguments[place] != "--" && !begins_program(arguments[place])) {
    complete_bare_flag(arguments, place);
    // "--" is no value: the parser says that one is missing.
    const bool has_value = place + 1 < arguments.size() && arguments[place + 1] != "--";
    place += has_value && takes_next_word(command, arguments[place]) ? 2 : 1;
  }
  cut_program(arguments, place, program);
}

// Empty: the limits of this process are not the reason.
std::string_view remedy_for(int error_number) {
  if (error_number == EMFILE || error_number == ENFILE) return "; raise the limit of open files with ulimit -n";
  if (error_number == EAGAIN) return "; raise the limit of processes and threads with ulimit -u";
  return "";
}

bool has_no_reader(int descriptor) {
  pollfd looked{descriptor, POLLOUT, 0};
  return ::poll(&looked, 1, 0) == 1 && (looked.revents & POLLERR) != 0;
}

// An answer that was asked for and could not be written is a failure of every command. Who closes a pipe, as `head`
// does, has seen enough.
int after_output(int status) {
  if (std::cout.flush()) return status;
  if (!has_no_reader(STDOUT_FILENO))
    std::cerr << "elastictrain: standard output cannot be written; is its disk full?\n";
  return status == kExitSuccess ? kExitFailure : status;
}

}  // namespace

std::vector<std::string> prepare_arguments(const std::vector<Command>& commands, std::vector<std::string> arguments,
                                           std::vector<std::string>& program) {
  complete_common_words(arguments);
  const Command* command = arguments.empty() ? nullptr : find_command(commands, arguments.front());
  if (command == nullptr) return arguments;
  if (command->name == "torchrun") split_off_script(*command, arguments, program);
  if (command->takes_program) split_off_program(*command, arguments, program);
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
    if (argc > 2) invocation.line.assign(argv + 2, argv + argc);
    auto arguments = prepare_arguments(commands, {argv + 1, argv + argc}, invocation.program);
    const ProgramText program = {"elastictrain " ELASTICTRAIN_VERSION, launcher::build_id(), kExamples};
    if (const auto status = parse_arguments(commands, program, arguments)) return after_output(*status);
    if (!invocation.instead.empty()) {
      arguments = std::move(invocation.instead);
      if (const auto status = parse_arguments(commands, program, arguments)) return after_output(*status);
    }
    return after_output(invocation.action());
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
