#include "cli/parser.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>

#include "cli/commands/exit_code.h"
#include "cli/config/text.h"

namespace elastictrain::cli {
namespace {

using Words = std::vector<std::string>;

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_usage(const CLI::Option* option) const override { return option->get_type_name(); }
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    return is_positional ? option->get_type_name() : Formatter::make_option_name(option, is_positional);
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    return option->nonpositional() ? Formatter::make_option_opts(option) : "";
  }
};

bool is_flag(const std::string& word) {
  return word.size() > 1 && word.front() == '-';
}

std::string meant(std::string_view word, const Words& candidates) {
  const auto near = closest(word, candidates);
  return near ? "; did you mean " + *near + "?" : "";
}

Words command_names(const CLI::App& app) {
  Words names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty()) names.push_back(command->get_name());
  }
  return names;
}

Words flags_of(const CLI::App& command) {
  Words flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

std::string unknown_flag_text(const CLI::App& command, const std::string& word) {
  const std::string flag = word.substr(0, word.find('='));
  return "unknown flag " + flag + (flag.starts_with("--") ? meant(flag, flags_of(command)) : "");
}

// No subcommand was recognized.
std::string no_command_text(const CLI::App& app, const Words& arguments) {
  const Words names = command_names(app);
  const std::string known = "commands: " + join(names, ", ");
  if (arguments.empty()) return "say what to do, e.g. elastictrain run config.toml; " + known;
  const std::string& first = arguments.front();
  if (is_flag(first)) return unknown_flag_text(app, first);
  const std::string near = meant(first, names);
  return "unknown command '" + first + "'" + (near.empty() ? "; " + known : near);
}

std::string positionals_of(const CLI::App& command) {
  Words types;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional()) types.push_back(option->get_type_name());
  }
  return join(types, " ");
}

std::string unexpected_text(const CLI::App& command, const Words& extras) {
  if (extras.empty()) return "unexpected arguments";
  const auto flag = std::find_if(extras.begin(), extras.end(), is_flag);
  if (flag != extras.end()) return unknown_flag_text(command, *flag);
  const std::string takes = positionals_of(command);
  const bool starts_program = command.get_option_no_throw("--chdir") != nullptr;
  return "unexpected argument '" + extras.front() + "'; " + command.get_name() + " takes " +
         (takes.empty() ? "no arguments" : "only " + takes) +
         (starts_program ? ", and a program after --, e.g. elastictrain " + command.get_name() + " -n 4 -- ./train"
                         : "");
}

// The option that a message of CLI11 begins with.
const CLI::Option* option_named_in(const CLI::App& command, const std::string& message) {
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (message.starts_with(name + ":") || message.starts_with(name + " ")) return option;
  }
  return nullptr;
}

std::string mismatch_text(const CLI::App& command, const std::string& message) {
  const CLI::Option* option = option_named_in(command, message);
  if (option == nullptr) return message;
  const std::string name = option->get_name();
  if (message.ends_with(" missing")) return name + " needs a value: " + name + " " + option->get_type_name();
  if (message.find("At Most") != std::string::npos) return name + " is given more than once";
  return name + " takes no value";
}

// Shows a positional argument by its type name: "[NAME] N".
std::shared_ptr<CLI::FormatterBase> make_help_formatter() {
  return std::make_shared<HelpFormatter>();
}

// What is wrong with `arguments`, and what would be right. Not for --help and --version, which CLI11 also throws.
std::string parse_error_text(const CLI::App& app, const CLI::ParseError& error, const Words& arguments) {
  const auto chosen = app.get_subcommands();
  if (chosen.empty()) return no_command_text(app, arguments);
  const CLI::App& command = *chosen.front();
  const std::string message = error.what();
  switch (static_cast<CLI::ExitCodes>(error.get_exit_code())) {
    case CLI::ExitCodes::ExtrasError:
      return unexpected_text(command, app.remaining(true));
    case CLI::ExitCodes::ArgumentMismatch:
      return mismatch_text(command, message);
    case CLI::ExitCodes::ExcludesError:
      return message + "; remove one";
    default:
      return message;
  }
}

constexpr int kAnyNumber = 1000;

void throw_unless(const Status& status) {
  if (!status.ok()) throw CLI::ValidationError(status.error().message);
}

CLI::Option* add_kind(CLI::App& command, const Argument& argument) {
  using Kind = Argument::Kind;
  const auto use_one = [&argument](const std::string& value) { throw_unless(argument.use({value})); };
  const auto use_all = [&argument](const std::vector<std::string>& values) { throw_unless(argument.use(values)); };
  switch (argument.kind) {
    case Kind::kFlag:
      return command.add_flag_callback(argument.names, [&argument] { throw_unless(argument.use({})); });
    case Kind::kList:
      return command.add_option_function<std::vector<std::string>>(argument.names, use_all)->allow_extra_args(false);
    case Kind::kWords:
      return command.add_option_function<std::vector<std::string>>(argument.names, use_all)->expected(0, kAnyNumber);
    case Kind::kNeeded:
      return command.add_option_function<std::string>(argument.names, use_one)->required();
    case Kind::kValue:
    case Kind::kWord:
      break;
  }
  return command.add_option_function<std::string>(argument.names, use_one);
}

void add_argument(CLI::App& command, const Argument& argument) {
  CLI::Option* option = add_kind(command, argument)->description(argument.help);
  if (!argument.type.empty()) option->type_name(argument.type);
  if (!argument.group.empty()) option->group(argument.group);
  for (const std::string& other : argument.excludes) option->excludes(command.get_option(other));
}

void add_command(CLI::App& app, const Command& description) {
  CLI::App* command = app.add_subcommand(description.name, description.help)->group(description.group);
  if (!description.footer.empty()) command->footer(description.footer);
  for (const Argument& argument : description.arguments) add_argument(*command, argument);
  command->final_callback([&description] { throw_unless(description.choose()); });
}

void add_everything(CLI::App& app, const std::vector<Command>& commands, const ProgramText& program) {
  app.formatter(make_help_formatter());
  app.require_subcommand(1);
  app.set_version_flag("--version", program.version);
  app.add_flag_callback(
      "--build-id", [&program] { throw CLI::CallForVersion(program.build_id, 0); }, "print which build this is");
  for (const Command& command : commands) add_command(app, command);
  // Set last: subcommands added after this would inherit it.
  app.footer(program.footer);
}

int report_parse_error(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& arguments) {
  if (error.get_exit_code() == 0) return app.exit(error);
  const auto chosen = app.get_subcommands();
  const std::string command = chosen.empty() ? "" : " " + chosen.front()->get_name();
  std::cerr << "elastictrain" << command << ": " << parse_error_text(app, error, arguments) << "\n"
            << "Try 'elastictrain" << command << " --help'.\n";
  return kExitUsage;
}

}  // namespace

std::optional<int> parse_arguments(const std::vector<Command>& commands, const ProgramText& program,
                                   const std::vector<std::string>& arguments) {
  CLI::App app("Data-parallel training that changes its size while it runs", "elastictrain");
  add_everything(app, commands, program);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    return report_parse_error(app, error, arguments);
  }
  return std::nullopt;
}

}  // namespace elastictrain::cli
