#include "launcher/process/missing_program.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
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

bool is_on_path(const std::string& program, const std::string& path, const fs::path& directory) {
  std::istringstream folders(path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (is_executable(directory / folder / program)) return true;
  }
  return false;
}

std::string how_to_run(const std::string& program) {
  return program.ends_with(".py") ? ", or start its interpreter: python3 " + program : "";
}

std::optional<MissingProgram> look_at_file(const std::string& program, const fs::path& directory) {
  const fs::path file = directory / program;
  std::error_code failed;
  if (!fs::exists(file, failed)) {
    const std::string where = fs::path(program).is_absolute() ? "" : " in " + directory.string();
    return MissingProgram{kStatusNotFound, program + " does not exist" + where};
  }
  if (!is_file(file)) return MissingProgram{kStatusNotExecutable, program + " is not a file"};
  if (is_executable(file)) return std::nullopt;
  return MissingProgram{kStatusNotExecutable,
                        program + " may not be executed; allow it: chmod +x " + program + how_to_run(program)};
}

}  // namespace

std::optional<MissingProgram> find_missing_program(const std::string& program,
                                                   const std::vector<std::string>& environment,
                                                   const std::string& directory) {
  std::error_code failed;
  const fs::path start = directory.empty() ? fs::current_path(failed) : fs::path(directory);
  if (!fs::is_directory(start, failed)) return std::nullopt;  // another mistake, which is reported as such
  if (program.find('/') != std::string::npos) return look_at_file(program, start);
  const std::string path = path_in(environment);
  if (is_on_path(program, path, start)) return std::nullopt;
  const std::string here =
      is_file(start / program) ? "; the file in " + start.string() + " is written ./" + program : "";
  return MissingProgram{kStatusNotFound, program + " is not found in PATH (" + path + ")" + here +
                                             (here.empty() ? "" : how_to_run(program))};
}

}  // namespace elastictrain::launcher
