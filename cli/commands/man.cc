#include "cli/commands/man.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <utility>

#include "cli/commands/command.h"
#include "cli/commands/exit_code.h"
#include "cli/config/key_value.h"
#include "cli/config/run_config.h"
#include "cli/config/schema.h"
#include "cli/config/text.h"
#include "cli/output/config_reference.h"

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
    {"71", "not enough memory"},
    {"73", "an output cannot be written"},
    {"74", "the run ended, but its last state is on no disk"},
    {"75", "preempted; the state is saved, start again later"},
    {"76", "an answer of another version of elastictrain"},
    {"77", "files of another user"},
    {"78", "a mistake in a configuration file"},
    {"93", "workers hung too often, or recoveries made no progress"},
    {"94", "the audit failed"},
    {"130", "Ctrl-C"},
};

constexpr const char* kDate = "2026-11-26";  // of the last change of the interface
constexpr std::size_t kLineBytes = 78;

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

// At blanks, with `end` at the end of a line that goes on.
std::string in_short_lines(const std::string& text, const std::string& end) {
  std::string out;
  std::size_t begin = 0;  // of the line in `out`
  std::size_t blank = std::string::npos;
  for (const char c : text) {
    if (c == ' ' && out.find_first_not_of(' ', begin) != std::string::npos) blank = out.size();
    out += c;
    if (c == '\n') {
      begin = out.size();
      blank = std::string::npos;
    } else if (blank != std::string::npos && out.size() - begin > kLineBytes) {
      out.replace(blank, 1, end + "\n");
      begin = blank + end.size() + 1;
      blank = std::string::npos;
    }
  }
  return out;
}

// Of a paragraph. A line that a break has made is no command either.
std::string filled(const std::string& text) {
  std::string out = in_short_lines(text, "");
  for (std::size_t at = out.find('\n'); at != std::string::npos; at = out.find('\n', at + 1)) {
    if (at + 1 < out.size() && (out[at + 1] == '.' || out[at + 1] == '\'')) out.insert(at + 1, "\\&");
  }
  return out;
}

std::string upper_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

std::string bold(const std::string& text) {
  return "\\fB" + roff(text) + "\\fR";
}

std::string title(const std::string& name, const std::string& help, int section = 1) {
  return ".TH \"" + upper_case(name) + "\" " + std::to_string(section) + " " + kDate + " \"elastictrain " +
         std::string(ELASTICTRAIN_VERSION) + "\" \"\"\n.SH NAME\n" + filled(roff(name) + " \\- " + roff(help)) + "\n";
}

std::string example_text(const std::string& footer) {
  if (footer.empty()) return "";
  const std::size_t begin = footer.find_first_not_of('\n');
  const std::string text = footer.substr(begin, footer.find_last_not_of('\n') + 1 - begin);
  return ".SH NOTES\n.nf\n" + in_short_lines(roff(text), " \\") + "\n.fi\n";
}

bool is_flag_argument(const Argument& argument) {
  return argument.names.starts_with('-');
}

std::string argument_text(const Argument& argument) {
  const std::string names = join(split(argument.names, ','), ", ");
  const std::string value = argument.type.empty() ? "" : " \\fI" + roff(argument.type) + "\\fR";
  return ".TP\n" + (is_flag_argument(argument) ? bold(names) + value : "\\fI" + roff(argument.type) + "\\fR") + "\n" +
         filled(roff(argument.help)) + "\n";
}

std::string synopsis(const Command& command) {
  std::string text = bold("elastictrain " + command.name) + " [\\fIflags\\fR]";
  for (const Argument& argument : command.arguments) {
    if (!is_flag_argument(argument)) text += " \\fI" + roff(argument.type) + "\\fR";
  }
  if (command.takes_program) text += " [\\-\\-] \\fIprogram\\fR \\fIargs\\fR";
  return ".SH SYNOPSIS\n" + filled(text) + "\n";
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
  for (const auto& [status, meaning] : kStatuses) text += ".TP\n" + bold(status) + "\n" + filled(roff(meaning)) + "\n";
  return text;
}

}  // namespace

std::string man_page(const Command& command) {
  return title("elastictrain-" + command.name, command.help) + synopsis(command) + ".SH DESCRIPTION\n" +
         filled(roff(command.help) + ".") + "\n" + arguments_text(command) + example_text(command.footer) +
         statuses_text() + ".SH SEE ALSO\n.BR elastictrain (1)\n";
}

std::string man_page_of_all(const std::vector<Command>& commands) {
  std::string text =
      title("elastictrain", "data-parallel training that changes its size while it runs") + ".SH SYNOPSIS\n" +
      bold("elastictrain") + " \\fIcommand\\fR [\\fIflags\\fR]\n" + ".SH DESCRIPTION\n" +
      filled(
          "elastictrain launches data\\-parallel training, supervises it, and changes its size while it runs. Each "
          "command has a page of its own: elastictrain\\-run(1). The keys of its configuration: "
          "elastictrain\\-config(5).") +
      "\n.SH COMMANDS\n";
  for (const Command& command : commands) {
    if (!command.group.empty()) text += ".TP\n" + bold(command.name) + "\n" + filled(roff(command.help)) + "\n";
  }
  return text + statuses_text();
}

std::string man_page_of_keys() {
  std::string text = title("elastictrain-config", "the configuration of a run, in TOML", 5) + ".SH DESCRIPTION\n" +
                     filled(
                         "A key has the same meaning in a configuration file, in the environment "
                         "(ELASTICTRAIN_BATCH_PER_WORKER) and on the command line (its own flag, or "
                         "\\-\\-set batch.per_worker=64). A flag overrides the environment, the environment the file, "
                         "and the file the default. An unknown key is an error.") +
                     "\n";
  std::string section = "none yet";
  for (const KeySpec& key : schema()) {
    const std::string own(split_key(key.name).first);
    if (own != section) text += own.empty() ? ".SH KEYS\n" : ".SS " + roff("[" + own + "]") + "\n";
    section = own;
    const auto [type, values] = type_and_values(key);
    const std::string value = render_value(RunConfig{}, key);
    const std::string_view initial = trim(value);
    std::string about = key.help + "; " + type + (key.unit.empty() ? "" : ", " + key.unit) +
                        (values.empty() ? "" : ": " + values) +
                        (initial.empty() ? "" : "; default " + std::string(initial));
    if (!key.flag.empty()) about += "; flag " + join(split(key.flag, ','), ", ");
    text += ".TP\n" + bold(key.name) + "\n" + filled(roff(about)) + "\n";
  }
  return text + ".SH SEE ALSO\n.BR elastictrain (1)\n";
}

// `elastictrain man DIRECTORY`: writes the manual pages of all commands and of the configuration below it, for
// packages. Not for users.
namespace {

bool write_man_page(const std::filesystem::path& path, const std::string& page) {
  std::ofstream file(path);
  file << page;
  file.close();
  if (!file) std::cerr << "elastictrain man: " << path.string() << " cannot be written\n";
  return static_cast<bool>(file);
}

int write_man_pages(const std::vector<Command>& commands, const std::filesystem::path& directory) {
  const auto folder = directory / "man1";
  const auto formats = directory / "man5";
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  std::filesystem::create_directories(formats, failed);
  bool good = write_man_page(folder / "elastictrain.1", man_page_of_all(commands)) &&
              write_man_page(formats / "elastictrain-config.5", man_page_of_keys());
  for (const Command& command : commands) {
    if (good && !command.group.empty()) {
      good = write_man_page(folder / ("elastictrain-" + command.name + ".1"), man_page(command));
    }
  }
  return good ? kExitSuccess : kExitCannotCreate;
}

}  // namespace

Command make_man(Invocation& invocation) {
  const auto directory = std::make_shared<std::string>();
  const auto choose = [&invocation, directory]() -> Status {
    if (directory->empty()) return wrong_usage("say where to, e.g. elastictrain man share/man");
    invocation.action = [&invocation, directory] { return write_man_pages(all_commands(invocation), *directory); };
    return {};
  };
  return {"man", "write the manual pages", "", {word("directory", "DIRECTORY", "where to", *directory)}, choose};
}

}  // namespace elastictrain::cli
