#include "launcher/agent/program_facts.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

#include "launcher/process/missing_program.h"
#include "launcher/python_command.h"

namespace elastictrain::launcher {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOwnBinary = "@self";

// "SCRIPT", where the program is an interpreter that reads it.
std::optional<std::string> script_of(const std::vector<std::string>& argv) {
  const auto python = python_command(argv);
  if (!python || python->program.empty() || python->program.front() == "-m") return std::nullopt;
  return python->program.front();
}

std::string unreadable(const std::vector<std::string>& files, const fs::path& directory) {
  for (const std::string& file : files) {
    const fs::path path = directory / file;
    if (::access(path.c_str(), R_OK) == 0) continue;
    const std::string where = fs::path(file).is_absolute() ? "" : " in " + directory.string();
    return file + where + " cannot be read: " + std::strerror(errno);
  }
  return "";
}

// "version = 3.11.2" of the environment's own file; empty: this is none.
std::string version_of_environment(const fs::path& interpreter) {
  std::ifstream settings(interpreter.parent_path().parent_path() / "pyvenv.cfg");
  for (std::string line; std::getline(settings, line);) {
    const std::size_t equals = line.find('=');
    if (!line.starts_with("version") || equals == std::string::npos) continue;
    const std::size_t value = line.find_first_not_of(" \t", equals + 1);
    return value == std::string::npos ? "" : line.substr(value);
  }
  return "";
}

std::string describe_interpreter(const fs::path& interpreter) {
  std::error_code failed;
  const fs::path real = fs::canonical(interpreter, failed);
  if (failed) return "";
  const std::string version = version_of_environment(interpreter);
  return real.string() + (version.empty() ? "" : ", environment of Python " + version);
}

}  // namespace

ProgramFacts program_facts(const std::vector<std::string>& argv, const std::vector<std::string>& environment,
                           const std::string& directory, const std::vector<std::string>& files) {
  ProgramFacts facts;
  if (argv.empty()) return facts;
  const bool is_own = argv.front() == kOwnBinary;
  const std::string program = is_own ? "/proc/self/exe" : argv.front();
  if (const auto missing = find_missing_program(program, environment, directory)) {
    facts.problem = missing->text;
    facts.exit_status = missing->exit_status;
    return facts;
  }
  std::vector<std::string> all = files;
  if (const auto script = script_of(argv)) all.push_back(*script);
  std::error_code failed;
  const fs::path start = directory.empty() ? fs::current_path(failed) : fs::path(directory);
  facts.missing_file = unreadable(all, start);
  if (!is_own && python_command(argv)) {
    facts.interpreter = describe_interpreter(find_program(argv.front(), environment, directory));
  }
  return facts;
}

}  // namespace elastictrain::launcher
