#include "cli/parser.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "cli/commands/exit_code.h"
#include "cli/usage.h"

namespace elastictrain::cli {
namespace {

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
