#include "cli/commands/man_page.h"

#include <utility>

#include "cli/config/text.h"

namespace elastictrain::cli {
namespace {

constexpr std::pair<const char*, const char*> kStatuses[] = {
    {"0", "done; training finished, or was stopped by request"},
    {"1-125", "the status of the first worker that failed too often; of a client command, 1: refused"},
    {"126, 127", "the program may not be executed, or is not found"},
    {"128+s", "as 1-125, by signal s"},
    {"64", "wrong flags or arguments"},
    {"69", "too few hosts, or no such run"},
    {"70", "an internal error"},
    {"73", "an output cannot be written"},
    {"74", "the run ended, but its last state is on no disk"},
    {"75", "preempted; the state is saved, start again later"},
    {"78", "a mistake in a configuration file"},
    {"93", "workers hung too often, or recoveries made no progress"},
    {"94", "the audit failed"},
    {"130", "Ctrl-C"},
};

// Text of a paragraph: no character of it is a command of roff.
std::string roff(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool line_begins = i == 0 || text[i - 1] == '\n';
    if (line_begins && (text[i] == '.' || text[i] == '\'')) out += "\\&";
    if (text[i] == '\\') {
      out += "\\e";
    } else if (text[i] == '-') {
      out += "\\-";
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string bold(const std::string& text) {
  return "\\fB" + roff(text) + "\\fR";
}

std::string title(const std::string& name, const std::string& help) {
  return ".TH \"" + name + "\" 1 \"\" \"elastictrain " + std::string(ELASTICTRAIN_VERSION) + "\" \"\"\n.SH NAME\n" +
         roff(name) + " \\- " + roff(help) + "\n";
}

std::string example_text(const std::string& footer) {
  if (footer.empty()) return "";
  return ".SH NOTES\n.nf\n" + roff(footer) + "\n.fi\n";
}

bool is_flag_argument(const Argument& argument) {
  return argument.names.starts_with('-');
}

std::string argument_text(const Argument& argument) {
  const std::string names = join(split(argument.names, ','), ", ");
  const std::string value = argument.type.empty() ? "" : " \\fI" + roff(argument.type) + "\\fR";
  return ".TP\n" + (is_flag_argument(argument) ? bold(names) + value : "\\fI" + roff(argument.type) + "\\fR") + "\n" +
         roff(argument.help) + "\n";
}

std::string synopsis(const Command& command) {
  std::string text = ".SH SYNOPSIS\n" + bold("elastictrain " + command.name) + " [\\fIflags\\fR]";
  for (const Argument& argument : command.arguments) {
    if (!is_flag_argument(argument)) text += " \\fI" + roff(argument.type) + "\\fR";
  }
  return text + (command.takes_program ? " [\\-\\-] \\fIprogram\\fR \\fIargs\\fR" : "") + "\n";
}

std::string arguments_text(const Command& command) {
  std::string text;
  std::string group = "none yet";
  for (const Argument& argument : command.arguments) {
    if (argument.group != group) {
      text += argument.group.empty() ? ".SH OPTIONS\n" : ".SS " + roff(argument.group) + "\n";
      if (text.find(".SH OPTIONS") == std::string::npos) text = ".SH OPTIONS\n" + text;
    }
    group = argument.group;
    text += argument_text(argument);
  }
  return text;
}

std::string statuses_text() {
  std::string text = ".SH EXIT STATUS\n";
  for (const auto& [status, meaning] : kStatuses) text += ".TP\n" + bold(status) + "\n" + roff(meaning) + "\n";
  return text;
}

}  // namespace

std::string man_page(const Command& command) {
  return title("elastictrain-" + command.name, command.help) + synopsis(command) + ".SH DESCRIPTION\n" +
         roff(command.help) + ".\n" + arguments_text(command) + example_text(command.footer) + statuses_text() +
         ".SH SEE ALSO\n.BR elastictrain (1)\n";
}

std::string man_page_of_all(const std::vector<Command>& commands) {
  std::string text =
      title("elastictrain", "data-parallel training that changes its size while it runs") + ".SH SYNOPSIS\n" +
      bold("elastictrain") + " \\fIcommand\\fR [\\fIflags\\fR]\n" +
      ".SH DESCRIPTION\nelastictrain launches data\\-parallel training, supervises it, and changes its size "
      "while it runs. Each command has a page of its own: elastictrain\\-run(1).\n.SH COMMANDS\n";
  for (const Command& command : commands) {
    if (!command.group.empty()) text += ".TP\n" + bold(command.name) + "\n" + roff(command.help) + "\n";
  }
  return text + statuses_text();
}

}  // namespace elastictrain::cli
