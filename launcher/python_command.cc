#include "launcher/python_command.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace elastictrain::launcher {
namespace {

// python, python3, python3.11
bool is_interpreter(std::string_view path) {
  std::string_view name = path.substr(path.rfind('/') + 1);
  if (!name.starts_with("python")) return false;
  name.remove_prefix(6);
  return std::all_of(name.begin(), name.end(),
                     [](unsigned char letter) { return std::isdigit(letter) != 0 || letter == '.'; });
}

// -u, -OO, -Xdev, -Werror; not those with which the interpreter runs no file or module.
bool is_plain_option(std::string_view word) {
  if (word.starts_with("-X") || word.starts_with("-W")) return true;
  return word.size() > 1 && word[0] == '-' && word.find_first_not_of("bBdEiIOPqsSuvx", 1) == std::string_view::npos;
}

}  // namespace

std::optional<PythonCommand> python_command(const std::vector<std::string>& argv) {
  if (argv.empty() || !is_interpreter(argv[0])) return std::nullopt;
  std::size_t at = 1;
  while (at < argv.size() && argv[at].starts_with('-') && argv[at] != "-m") {
    if (!is_plain_option(argv[at])) return std::nullopt;
    at += argv[at] == "-X" || argv[at] == "-W" ? 2 : 1;
  }
  const bool is_module = at < argv.size() && argv[at] == "-m";
  if (at + (is_module ? 1 : 0) >= argv.size()) return std::nullopt;
  const auto program = argv.begin() + static_cast<std::ptrdiff_t>(at);
  return PythonCommand{{argv.begin(), program}, {program, argv.end()}};
}

}  // namespace elastictrain::launcher
