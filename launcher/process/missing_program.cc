#include "launcher/process/missing_program.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

namespace elastictrain::launcher {
namespace {

namespace fs = std::filesystem;

// What execvp() searches without a PATH.
constexpr const char* kUsualPath = "/bin:/usr/bin";

std::string path_in(const std::vector<std::string>& environment) {
  constexpr std::string_view kName = "PATH=";
  for (const std::string& variable : environment) {
    if (variable.starts_with(kName)) return variable.substr(kName.size());
  }
  return kUsualPath;
}

bool is_file(const fs::path& path) {
  std::error_code failed;
  return fs::is_regular_file(path, failed);
}

bool is_executable(const fs::path& path) {
  return is_file(path) && ::access(path.c_str(), X_OK) == 0;
}

// Empty: none. An empty folder of the path is the current one, also behind the last colon.
fs::path found_on_path(const std::string& program, const std::string& path, const fs::path& directory) {
  std::istringstream folders(path + ":");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path file = directory / folder / program;
    if (is_executable(file)) return file;
  }
  return {};
}

std::string how_to_run(const std::string& program) {
  return program.ends_with(".py") ? ", or start its interpreter: python3 " + program : "";
}

// Behind "#!": the interpreter and its argument, which is one for the kernel. Empty: the file is no script.
std::vector<std::string> interpreter_of(const fs::path& file) {
  constexpr std::size_t kKernelReads = 256;  // of a file, to find its interpreter (BINPRM_BUF_SIZE)
  std::ifstream content(file, std::ios::binary);
  std::string line(kKernelReads, '\0');
  content.read(line.data(), static_cast<std::streamsize>(line.size()));
  line.resize(static_cast<std::size_t>(content.gcount()));
  const std::size_t end = line.find('\n');
  if (!line.starts_with("#!") || end == std::string::npos) return {};
  std::istringstream words(line.substr(2, end - 2));
  std::vector<std::string> found(1);
  words >> found[0];
  std::string argument;
  std::getline(words >> std::ws, argument);
  if (!argument.empty()) found.push_back(argument.substr(0, argument.find_last_not_of(" \t") + 1));
  const bool ends_in_return = line[end - 1] == '\r';  // white space for the stream, not for the kernel
  if (ends_in_return && !found.back().ends_with('\r')) found.back() += '\r';
  return found;
}

std::optional<MissingProgram> look_at_script(const std::string& program, const fs::path& file, const std::string& path,
                                             const fs::path& directory) {
  const std::vector<std::string> words = interpreter_of(file);
  if (words.empty() || words[0].empty()) return std::nullopt;
  const std::string asks = program + " asks for the interpreter " + words[0] + " in its first line, ";
  const bool ends_in_return = words.back().ends_with('\r');
  if (ends_in_return) {
    return MissingProgram{kStatusNotFound, program +
                                               " has a carriage return in its first line, which becomes a part of "
                                               "its interpreter's name; remove them: sed -i 's/\\r$//' " +
                                               program};
  }
  const fs::path interpreter = directory / words[0];
  std::error_code failed;
  if (!fs::exists(interpreter, failed)) return MissingProgram{kStatusNotFound, asks + "which does not exist"};
  if (!is_executable(interpreter)) return MissingProgram{kStatusNotExecutable, asks + "which may not be executed"};
  const bool by_path = interpreter.filename() == "env" && words.size() == 2 && words[1].front() != '-' &&
                       words[1].find_first_of("= \t/") == std::string::npos;
  if (!by_path || !found_on_path(words[1], path, directory).empty()) return std::nullopt;
  return MissingProgram{kStatusNotFound, program + " asks for the interpreter " + words[1] +
                                             " in its first line, which is not found in PATH (" + path + ")"};
}

std::optional<MissingProgram> look_at_file(const std::string& program, const std::string& path,
                                           const fs::path& directory) {
  const fs::path file = directory / program;
  std::error_code failed;
  if (!fs::exists(file, failed)) {
    if (fs::is_symlink(file, failed)) {
      return MissingProgram{kStatusNotFound, program + " is a link to " + fs::read_symlink(file, failed).string() +
                                                 ", which does not exist"};
    }
    const std::string where = fs::path(program).is_absolute() ? "" : " in " + directory.string();
    return MissingProgram{kStatusNotFound, program + " does not exist" + where};
  }
  if (!is_file(file)) return MissingProgram{kStatusNotExecutable, program + " is not a file"};
  if (is_executable(file)) return look_at_script(program, file, path, directory);
  return MissingProgram{kStatusNotExecutable,
                        program + " may not be executed; allow it: chmod +x " + program + how_to_run(program)};
}

}  // namespace

std::string find_program(const std::string& program, const std::vector<std::string>& environment,
                         const std::string& directory) {
  std::error_code failed;
  const fs::path start = directory.empty() ? fs::current_path(failed) : fs::path(directory);
  if (program.find('/') == std::string::npos) return found_on_path(program, path_in(environment), start).string();
  return is_executable(start / program) ? (start / program).string() : "";
}

std::optional<MissingProgram> find_missing_program(const std::string& program,
                                                   const std::vector<std::string>& environment,
                                                   const std::string& directory) {
  std::error_code failed;
  const fs::path start = directory.empty() ? fs::current_path(failed) : fs::path(directory);
  if (!fs::is_directory(start, failed)) {
    const char* what = fs::exists(start, failed) ? " is not a directory" : " does not exist";
    return MissingProgram{
        0, "the directory in which it is to start, " + directory + "," + what + "; choose another: --chdir DIR"};
  }
  const std::string path = path_in(environment);
  if (program.find('/') != std::string::npos) return look_at_file(program, path, start);
  if (const fs::path file = found_on_path(program, path, start); !file.empty()) {
    return look_at_script(program, file, path, start);
  }
  const std::string here =
      is_file(start / program) ? "; the file in " + start.string() + " is written ./" + program : "";
  return MissingProgram{kStatusNotFound, program + " is not found in PATH (" + path + ")" + here +
                                             (here.empty() ? "" : how_to_run(program))};
}

}  // namespace elastictrain::launcher
