#include "cli/output/whole_file.h"

#include <cerrno>
#include <filesystem>
#include <fstream>

namespace elastictrain::cli {
namespace {

namespace fs = std::filesystem;

std::error_code write(const fs::path& path, const std::string& text) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file ? std::error_code() : std::error_code(errno, std::generic_category());
}

}  // namespace

std::error_code write_whole_file(const std::string& path, const std::string& text) {
  std::error_code failed;
  const auto kind = fs::status(path, failed).type();
  if (kind == fs::file_type::directory) return std::make_error_code(std::errc::is_a_directory);
  if (kind != fs::file_type::regular && kind != fs::file_type::not_found) return write(path, text);
  const fs::path target = kind == fs::file_type::regular ? fs::canonical(path, failed) : fs::path(path);
  if (kind == fs::file_type::regular && failed) return failed;
  const fs::path temporary = target.string() + ".new";
  failed = write(temporary, text);
  if (!failed) fs::rename(temporary, target, failed);
  std::error_code ignored;
  if (failed) fs::remove(temporary, ignored);
  return failed;
}

void remove_whole_file(const std::string& path) {
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) fs::remove(path, ignored);
}

}  // namespace elastictrain::cli
