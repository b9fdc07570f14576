#include "cli/commands/program_word.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "cli/config/text.h"

namespace elastictrain::cli {
namespace {

bool is_executable_file(const std::string& path) {
  std::error_code failed;
  return std::filesystem::is_regular_file(path, failed) && ::access(path.c_str(), X_OK) == 0;
}

bool is_on_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  const auto folders = split(path == nullptr ? "" : path, ':');
  return std::any_of(folders.begin(), folders.end(),
                     [&](const std::string& folder) { return is_executable_file(folder + "/" + name); });
}

}  // namespace

bool is_script(const std::string& word) {
  return word.ends_with(".py") || word.ends_with(".sh");
}

bool begins_program(const std::string& word) {
  if (word.empty() || word.starts_with('-') || word.ends_with(".toml")) return false;
  if (is_script(word)) return true;
  std::error_code failed;
  const bool has_folder = word.find('/') != std::string::npos;
  if (has_folder || std::filesystem::exists(word, failed)) return has_folder && is_executable_file(word);
  return is_on_path(word);
}

}  // namespace elastictrain::cli
